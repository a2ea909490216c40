/**
 * Writes what the documentation takes from the code: docs/reference/*.md, and the tables of configuration and metrics in the
 * plugins' READMEs. With `--check` it writes nothing and fails when a file is out of date.
 *
 *   node scripts/generate-docs.ts [--check]
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generatedDocs } from './reference.ts'

const ROOT = join(import.meta.dirname, '..')
const check = process.argv.includes('--check')
const read = (file: string): string | undefined => (existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8') : undefined)
let stale = 0
for (const [file, text] of await generatedDocs(read)) {
  if (read(file) === text) continue
  stale++
  process.stdout.write(`${check ? 'out of date' : 'written'}: ${file}\n`)
  if (!check) writeFileSync(join(ROOT, file), text)
}
if (stale === 0) process.stdout.write('the generated documentation is up to date\n')
process.exit(check && stale > 0 ? 1 : 0)
