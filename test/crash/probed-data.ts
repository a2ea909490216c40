/** The data directory that bit-flips.ts corrupts: segments, catalog and log as a killed process leaves them, and a backup of the same. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testContext } from '../../storage/conformance/context.ts'
import { bool, dec, f64, hist, i64, lines, NOW, NOW_MS, str, type TestPoint, u64, write } from '../../storage/conformance/points.ts'
import { EmbeddedEngine } from '../../storage/embedded/engine.ts'

/** Written last, in this order, to the log only: a cut end of the log leaves the first so many. */
export const TAIL = 'tail'
const TAIL_BATCHES = 120
const ROUNDS = 4
const SERIES = 120
const COUNT = new URL('../../storage/embedded/testing/count-job.ts', import.meta.url)
const OWNERS = ['tasks', 'rollups']

/** What a database says, by question: lines, or the error. */
export type Said = Record<string, { lines: string[] } | { error: string }>

export function engineOver(dir: string, logged: (line: string) => void): EmbeddedEngine {
  const level = (name: string) => (first: unknown, text?: string) => logged(`${name} ${text ?? ''} ${JSON.stringify(first, errorText)}`)
  const log = { debug() {}, info: level('info'), warn: level('warn'), error: level('error') }
  const config = { data_dir: dir, wal_max_file_size: 65_536, wal_max_unflushed: 1000, compaction_fan_in: 64, query_threads: 1, scrub_interval_secs: 0 }
  return new EmbeddedEngine({ ...testContext(config, () => NOW_MS), log })
}

const errorText = (_: string, value: unknown): unknown => (value instanceof Error ? value.message : typeof value === 'bigint' ? String(value) : value)

export async function ask(engine: EmbeddedEngine): Promise<Said> {
  const said: Said = {}
  const put = async (question: string, answer: () => Promise<string[]> | string[]): Promise<void> => {
    try {
      said[question] = { lines: await answer() }
    } catch (error) {
      said[question] = { error: String((error as Error).message) }
    }
  }
  await put('names', async () => (await engine.measurements('default')).map((one) => JSON.stringify(one)))
  for (const { name } of await engine.measurements('default')) await put(name, () => lines(engine, { measurement: name }))
  for (const owner of OWNERS) await put(`state of ${owner}`, async () => (await engine.state(owner).list()).map((one) => JSON.stringify(one)))
  await put('sql', async () => {
    const job = engine.run<number>(COUNT, { namespace: 'default', query: 'SELECT host, temp FROM types' })
    for await (const _ of job.output) throw new Error('the job emits nothing')
    return [String(await job.result)]
  })
  return said
}

function round(n: number): TestPoint[] {
  const time = (i: number): bigint => NOW - BigInt((ROUNDS - n) * 1000 - i) * 1_000_000_000n
  const rows = Array.from({ length: 30 }, (_, i) => i)
  return [
    ...rows.map((i): TestPoint => {
      const fields = {
        temp: f64(n * 100 + i / 4),
        ratio: f64((i + n) / 3),
        hits: i64(BigInt(i) - 7n),
        total: u64(2n ** 63n + BigInt(i)),
        up: bool(i % 3 === 0),
        state: str(`state ${i % 4}`),
        cost: dec(`${i}.5`),
        spread: hist(Uint8Array.of(i, 255, n)),
      }
      return { measurement: 'types', tags: { host: `h${i % 5}` }, time: time(i), fields }
    }),
    ...rows.flatMap((i) =>
      ['one', 'two'].map((measurement) => ({ measurement, tags: { host: `h${i % 3}` }, time: time(i), fields: { value: f64(i / 7 + n) } })),
    ),
    ...Array.from({ length: SERIES }, (_, i) => ({ measurement: 'many', tags: { n: `series ${n} ${i}` }, time: NOW, fields: { value: f64(i) } })),
    // Repeats of the round before.
    { measurement: 'types', tags: { host: 'h0' }, time: time(0) - 1_000_000_000_000n, fields: { temp: f64(-n) } },
  ]
}

/** @returns a directory with `data` and `backup`; the caller removes it. */
export async function makeData(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-flips-'))
  const live = mkdtempSync(join(tmpdir(), 'svc-flips-live-'))
  const engine = engineOver(live, () => {})
  try {
    await engine.open()
    for (let n = 0; n < ROUNDS; n++) {
      await write(engine, round(n))
      await engine.flush()
      for (const owner of OWNERS) await engine.state(owner).transaction((tx) => tx.put(`key ${n}`, { n, text: 'x'.repeat(n * 700) }))
    }
    await engine.delete({ namespace: 'default', measurement: 'one', matchers: [{ tag: 'host', op: '=', value: 'h1' }], end: NOW - 2_500_000_000_000n })
    await engine.flush()
    for (let i = 0; i < TAIL_BATCHES; i++) {
      const points = [0, 1, 2].map((j) => ({ measurement: TAIL, tags: {}, time: NOW + BigInt(i * 3 + j), fields: { text: str(`${i} `.repeat(150)) } }))
      await write(engine, points)
    }
    cpSync(live, join(folder, 'data'), { recursive: true, filter: (path) => !/LOCK(\.os)?$/.test(path) })
    await engine.backup.create(join(folder, 'backup'))
  } finally {
    await engine.close()
    rmSync(live, { recursive: true })
  }
  return folder
}
