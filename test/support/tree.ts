/** The files of the repository, as its own rules see them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

/** Not the repository's: installed, generated or data. */
const SKIPPED = new Set(['node_modules', '.git', '.tap', 'dist', 'svc-data'])

/** Paths relative to the root, with "/", sorted. */
export function filesBelow(folder = '.', match: RegExp = /./): string[] {
  const found: string[] = []
  const walk = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (SKIPPED.has(entry.name)) continue
      const full = join(path, entry.name)
      if (entry.isDirectory()) walk(full)
      else if (entry.isFile()) found.push(relative(ROOT, full).split(sep).join('/'))
    }
  }
  walk(join(ROOT, folder))
  return found.filter((file) => match.test(file)).sort()
}

export function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

/** Names of the folders directly below. */
export function foldersIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !SKIPPED.has(entry.name))
    .map((entry) => entry.name)
    .sort()
}
