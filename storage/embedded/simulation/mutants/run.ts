/**
 * Whether the simulator finds bugs that are put back: `node storage/embedded/simulation/mutants/run.ts [lives] [seed] [names]`. Each mutant is made in a
 * temporary copy of the sources. Fails when one is not found within so many lives, or does not apply any more.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Mutant, mutants } from './mutants.ts'

const ROOT = resolve(import.meta.dirname, '../../../..')
const lives = process.argv[2] ?? '20000'
const seed = process.argv[3] ?? String(Math.floor(Math.random() * 2 ** 31))
const names = process.argv[4]
let missed = 0

for (const mutant of mutants) {
  if (names !== undefined && !names.includes(mutant.name)) continue
  const copy = copyWith(mutant)
  const { stdout, status } = spawnSync(process.execPath, [join(copy, 'storage/embedded/simulation/run.ts'), lives, seed, '--stop'], { encoding: 'utf8' })
  rmSync(copy, { recursive: true })
  if (status !== 1) missed++
  console.log(`${mutant.name} (${mutant.what}): ${status === 1 ? 'found' : 'NOT FOUND'}\n  ${stdout.trim().split('\n').join('\n  ')}`)
}
process.exitCode = missed > 0 ? 1 : 0

/** @throws when the mutant does not apply. */
function copyWith({ name, edits }: Mutant): string {
  const copy = mkdtempSync(join(tmpdir(), 'svc-mutant-'))
  for (const folder of ['kernel', 'storage', 'package.json']) cpSync(join(ROOT, folder), join(copy, folder), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  for (const { file, find, replace } of edits) {
    const path = join(copy, file)
    const parts = readFileSync(path, 'utf8').split(find)
    if (parts.length !== 2) throw new Error(`cannot make mutant ${name}: ${file} has its text ${parts.length - 1} times, not once; write it anew`)
    writeFileSync(path, parts.join(replace))
  }
  return copy
}
