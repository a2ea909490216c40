/**
 * Random queries over random data, asked of a real Prometheus and of svc: results, errors and annotations have to be the same.
 *
 * SVC_DIFF_SEED repeats a run, SVC_DIFF_QUERIES makes it longer, SVC_DIFF_URL asks a server that is already running (with nothing in it).
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Random, seeded } from '../../kernel/lib/random/index.ts'
import { startNode } from './node.ts'
import { noPrometheus, startPrometheus } from './prometheus.ts'
import { type Answer, ask, difference, type Question } from './promql/compare.ts'
import { INTERVAL_MS, randomData, SAMPLES } from './promql/data.ts'
import { Grammar, labelsMatter } from './promql/grammar.ts'
import { damaged, type Part, render, shrink } from './promql/query.ts'
import { remoteWrite, type Series } from './promql/samples.ts'

const SEED = Number(process.env.SVC_DIFF_SEED ?? Math.floor(Math.random() * 2 ** 31))
const QUERIES = Number(process.env.SVC_DIFF_QUERIES ?? 300)
/** Enough for two servers of the same kind to show what the comparison must put up with. */
const CALIBRATION = Number(process.env.SVC_DIFF_CALIBRATION ?? 100)
const START_MS = Date.UTC(2024, 1, 28, 23, 30)
const END_MS = START_MS + SAMPLES * INTERVAL_MS
const STEPS = [7, 15, 30, 60, 90, 300]
const SLICES = 4
const SHRINKING = 150
const MAX_REPORTED = 15
const MAX_SHOWN = 700
const BACKFILL = '/api/v1/prom/write?backfill=true'

interface Difference {
  query: string
  smallest: string
  question: Omit<Question, 'query'>
  what: string
}

/** What the first server answered, so that queries which all fail or find nothing are noticed. */
const answered = { values: 0, nothing: 0, errors: 0, annotated: 0 }

function count({ status, data, warnings, infos }: Answer): void {
  if (status === 'error') answered.errors++
  else if ((data as { result: unknown[] }).result.length === 0) answered.nothing++
  else answered.values++
  if (warnings !== undefined || infos !== undefined) answered.annotated++
}

async function compare(urls: readonly [string, string], question: Question): Promise<string | undefined> {
  const [a, b]: Answer[] = await Promise.all(urls.map((url) => ask(url, question)))
  count(a)
  return difference(question.query, a, b, labelsMatter(question.query))
}

/** Asks each query at a time and over a range. @param change makes another query of it. */
async function differences(
  urls: readonly [string, string],
  seed: number,
  queries: number,
  change: (tree: Part, random: Random) => Part = (tree) => tree,
): Promise<Difference[]> {
  const random = seeded(seed)
  const grammar = new Grammar(random, START_MS, END_MS)
  const found: Difference[] = []
  for (let i = 0; i < queries; i++) {
    const tree = change(grammar.query(), random)
    const time = (START_MS + Math.floor(random() * (END_MS + 400_000 - START_MS))) / 1000
    const start = Math.floor(START_MS / 1000 + random() * 1800)
    const step = STEPS[Math.floor(random() * STEPS.length)]
    // A range of one step begins and ends with it: Prometheus takes others for a range in its warnings only.
    const steps = Math.floor(random() * 60)
    const end = start + steps * step + (steps === 0 ? 0 : Math.floor(random() * step))
    for (const question of [{ time }, { start, end, step }]) {
      const query = render(tree)
      const what = await compare(urls, { query, ...question })
      if (what === undefined) continue
      const smallest = render(await shrink(tree, async (text) => (await compare(urls, { query: text, ...question })) !== undefined, SHRINKING))
      found.push({ query, smallest, question, what: (await compare(urls, { query: smallest, ...question })) ?? what })
    }
  }
  return found
}

function report(found: Difference[], seed: number): string {
  const shown = found
    .slice(0, MAX_REPORTED)
    .map(({ query, smallest, question, what }) => `${smallest}\n  ${JSON.stringify(question)} of ${query}\n  ${what.slice(0, MAX_SHOWN)}`)
  return `seed ${seed}: ${found.length} differences\n${shown.join('\n')}`
}

/** Each metric by itself, as senders do; in the order given. */
async function fill(url: string, series: Series[]): Promise<void> {
  const byName = Map.groupBy(series, ({ labels }) => labels.__name__)
  for (const group of byName.values()) await remoteWrite(url, group)
}

const skip = noPrometheus
const prometheus = skip === false ? await startPrometheus() : undefined
after(() => prometheus?.stop())
const series = randomData(seeded(SEED), START_MS, true)
if (prometheus !== undefined) await fill(`${prometheus.url}/api/v1/write`, series)

test('a Prometheus that was fed in another order gives the same answers', { skip }, async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const other = await startPrometheus()
  t.after(() => other.stop())
  await fill(`${other.url}/api/v1/write`, series.toReversed())
  const found = await differences([prometheus!.url, other.url], SEED, CALIBRATION)
  t.diagnostic(JSON.stringify(answered))
  // Of two questions a query; a little more than half of them do, by chance fewer.
  assert.ok(answered.values > CALIBRATION / 2, 'many queries find something')
  assert.equal(found.length, 0, report(found, SEED))
})

/** The same in slices, none of which is in the order of time; staleness markers may come before all else of their metric. */
async function fillInPieces(url: string, all: Series[], random: Random): Promise<void> {
  const slices = Array.from({ length: SLICES }, (): Series[] => [])
  for (const { labels, samples } of all) {
    const parts = Array.from({ length: SLICES }, (): Series => ({ labels, samples: [] }))
    for (const sample of samples) parts[Math.floor(random() * SLICES)].samples.push(sample)
    for (const [i, part] of parts.entries()) if (part.samples.length > 0) slices[i].push(part)
  }
  for (const slice of slices) await remoteWrite(url, slice)
}

test('svc gives the answers of Prometheus', { skip }, async (t) => {
  t.diagnostic(`seed ${SEED}, ${QUERIES} queries, instant and over a range`)
  const given = process.env.SVC_DIFF_URL
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-interop-differential-'))
  const start = () => startNode({ plugins: ['remote_write', 'promql'], sections: '[remote_write]\nfloat_and_histogram = "keep_both"\n', dataDir })
  let node = given === undefined ? await start() : undefined
  t.after(async () => {
    await node?.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  const urls = (): [string, string] => [prometheus!.url, node?.url ?? (given as string)]
  await fillInPieces(urls()[1] + BACKFILL, series, seeded(SEED))
  await t.test('to queries', async () => {
    const found = await differences(urls(), SEED, QUERIES)
    assert.equal(found.length, 0, report(found, SEED))
  })
  await t.test('to queries that are damaged, which it refuses in the same words', async () => {
    const found = await differences(urls(), SEED, QUERIES, damaged)
    assert.equal(found.length, 0, report(found, SEED))
  })
  await t.test('after a restart', { skip: given === undefined ? false : 'not of a server that is already running' }, async () => {
    await node?.stop()
    node = await start()
    const found = await differences(urls(), SEED + 1, QUERIES)
    assert.equal(found.length, 0, report(found, SEED + 1))
  })
})
