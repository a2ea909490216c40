/** What questions for series and their newest samples make of rows that are deleted or written again. */
import type { SampleRequest } from 'svcdb/lib/columns'
import t, { type Test } from 'tap'
import { TestDatabase } from '../../testing/engine-state.ts'
import { TestSegments } from '../../testing/test-segments.ts'
import type { Snapshot } from '../../threads/state.ts'
import { selectActive, selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const MS = 1_000_000n
const START = 1_700_000_000_000n * MS
const [ONE, OTHER, THIRD] = ['h1', 'h2', 'h3'].map((host) => ({ host }))

function stage(t: Test) {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const measurement = db.measurement('m', { f: 'float64', d: { decimal: 0 } })
  const segments = new TestSegments(db, (removed, dropped) => db.sampleBlocks.forget(removed, dropped))
  const flush = async (): Promise<void> => {
    segments.freeze()
    await segments.flush()
  }
  return { db, measurement, segments, flush, snapshot: () => db.state.snapshotNow() as Snapshot }
}

t.test('a series is not active by rows that are deleted, of a segment whose rows all have the field', async (t) => {
  const { db, measurement, segments, flush, snapshot } = stage(t)
  db.write(
    measurement,
    [ONE, OTHER, THIRD].map((tags) => ({ tags, time: START, fields: { f: 1 } })),
  )
  await flush()
  const active = async (): Promise<string[]> => {
    const { series, tags } = await selectActive(await db.context(), snapshot(), { namespace: 'default', measurement: 'm', field: 'f' }, undefined)
    return Array.from(series, (_, i) => tags.at(i)[1])
  }
  t.same(await active(), ['h1', 'h2', 'h3'])
  segments.freeze()
  const { sequence } = db.memtable
  const tombstone = { id: 1, measurement: measurement.def.id, sequence, series: Int32Array.of(db.series(measurement, OTHER)), start: START, end: START }
  db.publish({ kind: 'tombstones', added: [tombstone], removed: [] })
  t.same(await active(), ['h1', 'h3'])
  const all = { id: 2, cutoff: START + MS, sequence, except: new Set<number>() }
  db.publish({ kind: 'cutoffs', cutoffs: { general: [all], own: new Map() } })
  t.same(await active(), [])
})

t.test('of samples of one time the one written last is the newest, whichever source is read first', async (t) => {
  const { db, measurement, flush, snapshot } = stage(t)
  // Of decimals nothing is kept: the sources are read. Of the others something is, but by new blocks.
  const newest = async (field: 'f' | 'd', sampleBlocks: SampleBlocks): Promise<number[]> => {
    const matchers: SampleRequest['matchers'] = [{ tag: 'host', op: '=', value: 'h1' }]
    const request: SampleRequest = { namespace: 'default', measurement: 'm', field, matchers, newestOnly: true }
    const found: number[] = []
    const { blocks } = await selectSamples({ ...(await db.context()), sampleBlocks }, snapshot(), request, undefined)
    for await (const { values } of blocks()) found.push(...values)
    return found
  }
  const check = async (value: number, where: string): Promise<void> => {
    for (const field of ['f', 'd'] as const)
      for (const blocks of [db.sampleBlocks, new SampleBlocks(8 << 20)]) t.same(await newest(field, blocks), [value], `${field} of write ${value}, in ${where}`)
  }
  // What ends later is read first.
  for (const [value, ends] of [0n, 5n, 0n, 3n].entries()) {
    db.write(measurement, [
      { tags: ONE, time: START, fields: { f: value, d: BigInt(value) } },
      { tags: OTHER, time: START + ends * MS, fields: { f: 0, d: 0n } },
    ])
    await check(value, 'the memtable')
    await flush()
    await check(value, 'a segment')
  }
})
