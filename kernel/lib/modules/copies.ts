/**
 * The copies of this package that a thread has loaded. There must be one: classes of another copy, such as `SvcError`, are strangers to this one, and so are
 * its metrics and its state. A plugin gets a copy of its own where it lists the package under `dependencies`, or lies outside the folder that the server runs in.
 */
import { fileURLToPath } from 'node:url'

const KEY = Symbol.for('svcdb.copies')

/** The folder that has kernel/, plugins/ and storage/: the repository, or `dist` of an installed package. */
export const HOME = fileURLToPath(new URL('../../..', import.meta.url))

const copies = ((globalThis as { [KEY]?: Set<string> })[KEY] ??= new Set())
copies.add(HOME)

/** Folders of the others. */
export function otherCopies(): string[] {
  return [...copies].filter((home) => home !== HOME)
}
