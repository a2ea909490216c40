// The package.json of the published package. In the repository the package's names lead to the sources, in the package to what `npm run build` makes of
// them, and npm knows one package.json only: so `npm pack` puts the published one in its place (prepack) and afterwards the repository's back (postpack).
// An interrupted pack leaves the published one; the next set-up or build puts the repository's back and says so.
//
//   node scripts/manifest.mjs publish|restore
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = join(root, 'package.json')
/** The repository's, while the published one is in its place. */
const kept = join(root, 'package.source.json')

const compiled = (target, base) => ({ types: `${base}${target.replace(/\.ts$/, '.d.ts')}`, default: `${base}${target.replace(/\.ts$/, '.js')}` })

/** `exports` of compiled files. */
export function compiledExports(exports, base) {
  const entries = Object.entries(exports)
  return Object.fromEntries(entries.map(([name, target]) => [name, target.endsWith('.ts') ? compiled(target.slice(2), base) : target]))
}

/** It names what is built, can be published, and has no runtime of its own: whoever installs it has one. Scripts stay, so that `npm test` of an interrupted pack repairs it. */
export function published(source) {
  const { private: _private, bin, exports, optionalDependencies, allowScripts: _scripts, ...rest } = source
  const { node: _runtime, ...optional } = optionalDependencies ?? {}
  return {
    ...rest,
    bin: Object.fromEntries(Object.entries(bin).map(([name, file]) => [name, `dist/${file.replace(/\.ts$/, '.js')}`])),
    exports: compiledExports(exports, './dist/'),
    ...(Object.keys(optional).length === 0 ? {} : { optionalDependencies: optional }),
  }
}

const text = (value) => `${JSON.stringify(value, undefined, 2)}\n`

export function publish() {
  restore()
  const source = readFileSync(manifest, 'utf8')
  writeFileSync(kept, source)
  writeFileSync(`${manifest}.new`, text(published(JSON.parse(source))))
  renameSync(`${manifest}.new`, manifest)
}

/**
 * Puts the repository's back, if it is not there.
 * @returns whether it had to be.
 * @throws Error when the published one was changed meanwhile.
 */
export function restore() {
  if (!existsSync(kept)) return false
  const source = readFileSync(kept, 'utf8')
  const current = readFileSync(manifest, 'utf8')
  if (current === source) {
    rmSync(kept)
    return false
  }
  if (current !== text(published(JSON.parse(source))))
    throw new Error(
      'cannot put package.json back after an interrupted npm pack: it was changed since; take the changes over into package.source.json, and rename that',
    )
  renameSync(kept, manifest)
  return true
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [command] = process.argv.slice(2)
  if (command === 'publish') publish()
  else if (command === 'restore') restore()
  else throw new Error('usage: node scripts/manifest.mjs publish|restore')
}
