/**
 * Runs each benchmark or fuzzer of the repository as a process of its own, one after the other.
 *
 *   node scripts/run-each.ts bench|fuzz [part of the path] [-- arguments for each]
 */
import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const FOLDERS = ['kernel', 'plugins', 'storage', 'test']

const split = process.argv.indexOf('--')
const [kind, part = ''] = process.argv.slice(2, split === -1 ? undefined : split)
const args = split === -1 ? [] : process.argv.slice(split + 1)
if (kind !== 'bench' && kind !== 'fuzz') {
  process.stderr.write('usage: node scripts/run-each.ts bench|fuzz [part of the path] [-- arguments for each]\n')
  process.exit(2)
}
const files = FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.${kind}.ts`, { cwd: ROOT }))
  .filter((file) => file.includes(part))
  .sort()
if (files.length === 0) {
  process.stderr.write(`cannot run ${kind}: no file *.${kind}.ts has "${part}" in its path\n`)
  process.exit(1)
}
let failed = 0
for (const file of files) {
  process.stdout.write(`\n== ${file}\n`)
  const { status } = spawnSync(process.execPath, [file, ...args], { cwd: ROOT, stdio: 'inherit' })
  if (status !== 0) failed++
}
process.stdout.write(`\n${files.length - failed} of ${files.length} ran\n`)
process.exit(failed === 0 ? 0 : 1)
