/**
 * Corrupts copies of a data directory and of a backup in every way of corruptions.ts, opens them in a process of their own, and asks for everything:
 * corruption is named, or changes nothing; no answer is wrong, and what does not need the corrupted file is answered. A log whose end is cut answers
 * the first so many writes: what the end held cannot be known from what is left.
 *
 *   node test/crash/bit-flips.ts [rounds] [seed]
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Random } from '../../storage/conformance/random.ts'
import type { Found, Probe } from './corruption-probe.ts'
import { CORRUPTIONS, type Corruption, filesBelow, type Part } from './corruptions.ts'
import { makeData, type Said, TAIL } from './probed-data.ts'

const PROBE = fileURLToPath(new URL('./corruption-probe.ts', import.meta.url))
const LIMIT_MS = 60_000

export type Verdict = 'refused' | 'named' | 'harmless' | 'cut'
export type Counts = Record<Part, Record<Verdict, number>>

/** One process at a time; a new one when it has ended. */
class Prober {
  private child: ChildProcess | undefined

  async probe(probe: Probe): Promise<Found> {
    const child = (this.child ??= fork(PROBE, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }))
    const ended = new AbortController()
    const { signal } = ended
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
    try {
      child.send(probe)
      const answer = once(child, 'message', { signal }).then(([found]) => found as Found)
      const exit = once(child, 'exit', { signal }).then(([code, killed]) => {
        this.child = undefined
        throw new Error(`the process that opened it ended with ${killed ?? code}`)
      })
      const found = Promise.race([answer, exit])
      for (const one of [answer, exit]) one.catch(() => {})
      return await found
    } finally {
      clearTimeout(timer)
      ended.abort()
    }
  }

  async close(): Promise<void> {
    const { child } = this
    if (child === undefined) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

/** @throws Error that names seed, round and corruption when an answer is wrong or corruption goes unnoticed. */
export async function bitFlips({ rounds, seed, log = () => {} }: { rounds: number; seed: number; log?: (line: string) => void }): Promise<Counts> {
  const random = new Random(seed)
  const origin = await makeData()
  const prober = new Prober()
  const counts = {} as Counts
  let now = 'untouched'
  let copy = ''
  try {
    if (filesBelow(join(origin, 'data', 'wal'), '.wal').length < 3) throw new Error('the log has too few files for the cases')
    copy = copied(origin)
    const whole = (await prober.probe({ folder: copy, what: 'data' })).said
    for (const [question, said] of Object.entries(whole)) if ('error' in said) throw new Error(`"${question}" is answered by ${said.error}`)
    const backup = await prober.probe({ folder: copy, what: 'backup' })
    if (backup.refused !== undefined) throw new Error(`the backup is refused: ${backup.refused}`)
    rmSync(copy, { recursive: true })
    for (let round = 0; round < rounds; round++) {
      for (const corruption of CORRUPTIONS) {
        now = `round ${round}, ${corruption.part}: ${corruption.name}`
        copy = copied(origin)
        const names = corruption.apply(copy, random)
        const found = await prober.probe({ folder: copy, what: corruption.part === 'backup' ? 'backup' : 'data' })
        const verdict = judge(corruption, names, whole, found)
        log(`${now} of ${names.join(' and ')}: ${verdict}${found.refused === undefined ? '' : ` (${found.refused})`}`)
        counts[corruption.part] ??= { refused: 0, named: 0, harmless: 0, cut: 0 }
        counts[corruption.part][verdict]++
        rmSync(copy, { recursive: true })
      }
    }
    return counts
  } catch (error) {
    throw new Error(`seed ${seed}, ${now}: ${(error as Error).message}; the data is kept in ${copy}`, { cause: error })
  } finally {
    await prober.close()
    rmSync(origin, { recursive: true })
  }
}

function copied(origin: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'svc-flip-'))
  cpSync(origin, copy, { recursive: true })
  return copy
}

function judge({ part }: Corruption, names: readonly string[], whole: Said, found: Found): Verdict {
  const isNamed = (text: string): boolean => names.some((name) => text.includes(name))
  if (found.refused !== undefined) {
    if (!isNamed(found.refused)) throw new Error(`it is refused without naming ${names.join(' or ')}: ${found.refused}`)
    return 'refused'
  }
  if (part === 'backup') {
    throw new Error('the backup passes for whole')
  }
  const wrong = Object.keys(whole).filter((question) => !same(whole[question], found.said[question]))
  if (wrong.length === 0) return 'harmless'
  // The measurement itself is unknown when its first write is cut off.
  if (part === 'log' && wrong.every((question) => question === TAIL || question === 'names')) {
    const tail = found.said[TAIL] ?? { lines: [] }
    const before = (whole[TAIL] as { lines: string[] }).lines
    if ('lines' in tail && tail.lines.every((line, i) => line === before[i])) return 'cut'
  }
  for (const question of wrong) {
    const said = found.said[question]
    if (said === undefined || 'lines' in said) throw new Error(`"${question}" is answered wrongly`)
    if (!isNamed(said.error)) throw new Error(`"${question}" fails without naming ${names.join(' or ')}: ${said.error}`)
  }
  if (!found.log.some((line) => line.startsWith('error') && isNamed(line))) throw new Error(`no line of the log names ${names.join(' or ')}`)
  return 'named'
}

function same(a: Said[string], b: Said[string] | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

if (import.meta.main) {
  const [rounds = '20', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  const log = (line: string) => void process.stdout.write(`${line}\n`)
  log(`seed ${seed}`)
  const counts = await bitFlips({ rounds: Number(rounds), seed: Number(seed), log })
  for (const [part, verdicts] of Object.entries(counts)) {
    const all = Object.values(verdicts).reduce((sum, n) => sum + n, 0)
    log(
      `${part}: ${all} cases, ${Object.entries(verdicts)
        .map(([verdict, n]) => `${n} ${verdict}`)
        .join(', ')}`,
    )
  }
  log('every corruption was named or changed no answer')
}
