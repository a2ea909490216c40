/** Several chunks read as one block give what they give one by one. */

import type { SampleRequest } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { type FieldSpec, TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const MS = 1_000_000n
const START = 1_700_000_000_000n * MS
const HOSTS = 48
const STEPS = 12_000
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

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

/** A question of a snapshot, and what it has to find: of each host its samples. */
interface Asked {
  snapshot: Snapshot
  field: string
  expected: string
}

const floats = (names: readonly string[]): FieldSpec => Object.fromEntries(names.map((name) => [name, 'float64']))

/** Rows of some fields and hosts, in batches of about as many rows: chunks begin small, grow, and are left for others. */
async function growing(seed: number): Promise<void> {
  const random = new Random(seed)
  const db = new TestDatabase()
  try {
    const names = Array.from({ length: 12 }, (_, i) => `f${i}`)
    let fields = ['f0', 'f1']
    let measurement = db.measurement('m', floats(fields))
    const context = { ...(await db.context()), sampleBlocks: new SampleBlocks(random.pick([9 << 20, 256 << 20])) }
    const hosts = Array.from({ length: random.pick([32, 48, 64]) }, (_, i) => `h${i}`)
    /** By host and field, of each time the last value. */
    const model = new Map<string, Map<number, number>>()
    const ask = async ({ snapshot, field, expected }: Asked, what: string): Promise<void> => {
      const set = await selectSamples(context, snapshot, { namespace: 'default', measurement: 'm', field }, undefined)
      const found: string[] = []
      for await (const { first, starts, times, values } of set.blocks())
        for (let s = 0; s + 1 < starts.length; s++)
          for (let i = starts[s]; i < starts[s + 1]; i++) found.push(`${set.tags.at(first + s).join()} ${times[i]} ${values[i]}`)
      const wanted = expected.length === 0 ? 0 : expected.split('\n').length
      if (found.sort().join('\n') !== expected) throw new Error(`${what}: ${found.length} samples of ${field}, and not the ${wanted} that were written`)
    }
    const now = (field: string): Asked => {
      const lines = hosts.flatMap((host) => [...(model.get(`${host} ${field}`) ?? [])].map(([ms, value]) => `host,${host} ${ms} ${value}`))
      return { snapshot: db.state.snapshotNow() as Snapshot, field, expected: lines.sort().join('\n') }
    }
    const asked: Asked[] = []
    for (let step = 0; step < 60; step++) {
      const dice = random.next()
      if (dice < 0.4 && fields.length < names.length) measurement = db.measurement('m', floats((fields = names.slice(0, fields.length + 1))))
      const set = dice > 0.9 ? fields.filter((name) => name === 'f0' || random.chance(0.4)) : fields
      const wide = random.chance(0.1)
      const some = random.chance(0.1) ? hosts.filter(() => random.chance(0.5)) : hosts
      const ms = Number(START / MS) + (random.chance(0.1) ? random.below(step + 1) : step)
      const points = some.map((host): TestPoint => {
        const values = set.filter((name) => name === 'f0' || !random.chance(0.05)).map((name) => [name, wide ? random.next() : random.below(100)] as const)
        for (const [name, value] of values) {
          const own = model.get(`${host} ${name}`) ?? new Map<number, number>()
          model.set(`${host} ${name}`, own.set(ms, value))
        }
        return { tags: { host }, time: BigInt(ms) * MS, fields: Object.fromEntries(values) }
      })
      db.write(measurement, points)
      for (const field of ['f0', random.pick(fields)]) {
        const one = now(field)
        await ask(one, `step ${step}`)
        asked.push(one)
      }
      await ask(random.pick(asked), `step ${step}, an older snapshot`)
    }
  } finally {
    db.close()
  }
}

t.test(`chunks that grow, with questions in between, SVC_SEED=${SEED}`, async (t) => {
  for (let run = 0; run < 10; run++) await t.resolves(growing(SEED + run), `SVC_SEED=${SEED + run}`)
})
