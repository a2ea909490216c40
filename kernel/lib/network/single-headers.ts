/** Headers that say who calls and for which namespace: of two, a proxy may have looked at one and the server at the other. */
import { SvcError } from '../errors/index.ts'

const SINGLE: ReadonlySet<string> = new Set(['authorization', 'x-namespace', 'x-api-key', 'host', 'origin'])

/** @param raw names and values in turn, as they came. @throws BAD_REQUEST naming the header, also when its values are the same. */
export function refuseDuplicates(raw: readonly string[]): void {
  let seen: Set<string> | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i].toLowerCase()
    if (!SINGLE.has(name)) continue
    seen ??= new Set()
    if (seen.has(name)) throw new SvcError('BAD_REQUEST', `cannot read header "${name}": the request has it more than once; send it once`)
    seen.add(name)
  }
}
