/** Full chunks read as one block give what they give one by one. */

import type { SampleRequest } from 'svcdb/lib/columns'
import t from 'tap'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const MS = 1_000_000n
const START = 1_700_000_000_000n * MS
const HOSTS = 48
const STEPS = 12_000

t.test('groups of chunks', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const measurement = db.measurement('m', { f: 'float64' }, { shared: 7 })
  const other = db.measurement('n', { f: 'float64' }, { shared: 7 })
  for (let from = 0; from < STEPS; from += 1000) {
    const points: TestPoint[] = []
    for (let i = from; i < from + 1000; i++) {
      for (let h = 0; h < HOSTS; h++) {
        // Some come late, some twice.
        const at = i % 50 === 7 && h % 5 === 0 ? i - 3 : i
        points.push({ tags: { host: `h${h}` }, time: START + BigInt(at * 10) * MS, fields: { f: i * 100 + h } })
      }
    }
    db.write(measurement, points)
    db.write(other, points.slice(0, 10))
  }
  const chunks = (db.state.snapshotNow() as Snapshot).table(7).memtables[0].chunks.length
  t.ok(chunks > 8, `${chunks} chunks`)
  const context = { ...(await db.context()), sampleBlocks: new SampleBlocks(256 << 20) }
  // So little room that groups are kept packed.
  const little = { ...context, sampleBlocks: new SampleBlocks(9 << 20) }
  const read = async (more: Partial<SampleRequest>, where = context): Promise<string[]> => {
    const set = await selectSamples(where, db.state.snapshotNow() as Snapshot, { namespace: 'default', measurement: 'm', field: 'f', ...more }, undefined)
    const out: string[] = []
    for await (const { first, starts, times, values } of set.blocks())
      for (let s = 0; s + 1 < starts.length; s++)
        out.push(`${set.tags.at(first + s).join()}: ${times.subarray(starts[s], starts[s + 1]).join()} ${values.subarray(starts[s], starts[s + 1]).join()}`)
    return out
  }
  const compare = async (more: Partial<SampleRequest>, what: string): Promise<void> => {
    const alone: string[] = []
    for (let h = 0; h < HOSTS; h++) alone.push(...(await read({ ...more, matchers: [{ tag: 'host', op: '=', value: `h${h}` }] })))
    for (const time of ['made', 'kept'])
      t.ok((await read(more, little)).join('\n') === alone.join('\n'), `${what}, packed, ${time}: the same as series by series`)
    for (const time of ['made', 'kept']) t.ok((await read(more)).join('\n') === alone.join('\n'), `${what}, ${time}: the same as series by series`)
  }
  const part = { start: START + 50_000n * MS, end: START + 70_000n * MS }
  await compare({}, 'everything')
  await compare(part, 'a part')
  // What is masked is taken out of the group.
  db.freeze()
  const masks = { measurement: measurement.def.id, sequence: db.memtable.sequence, series: null, start: START + 55_000n * MS, end: START + 60_000n * MS - 1n }
  db.publish({ kind: 'tombstones', added: [{ id: 1, ...masks }], removed: [] })
  await compare(part, 'after a delete')
  t.equal((await read({ start: masks.start, end: masks.end })).filter((line) => !line.endsWith(':  ')).length, 0)
})
