/** Points of few of many fields, of which a memtable makes chunks with other columns, some of them later: read while they come, with what is kept of chunks, by samples and by SQL. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import { TestSegments } from '../../testing/test-segments.ts'
import type { Snapshot } from '../../threads/state.ts'
import { EngineReader } from '../reader.ts'
import type { RelationContext } from '../relation.ts'
import { selectActive, selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const FIELDS = Array.from({ length: 60 }, (_, i) => `f${i}`)
const HOSTS = ['a', 'b', 'c']
const START = 1_700_000_000_000_000_000n
const MS = 1_000_000n

async function randomRun(run: number): Promise<number> {
  const random = new Random(run)
  const db = new TestDatabase()
  try {
    const blocks = new SampleBlocks(random.pick([0, 40_000, 8 << 20]))
    const segments = new TestSegments(db, (removed, dropped) => blocks.forget(removed, dropped))
    const wide = db.measurement('wide', Object.fromEntries(FIELDS.map((name) => [name, 'float64' as const])))
    const context = async (): Promise<RelationContext> => ({ ...(await db.context()), sampleBlocks: blocks })
    const wanted = new Map<string, number>() // by field, host and time
    let compared = 0
    for (let step = 0; step < 200; step++) {
      const points = Array.from({ length: random.pick([1, 1, 1, 2, 30]) }, (): TestPoint => {
        const names = random.chance(0.05) ? FIELDS : Array.from({ length: 1 + random.below(2) }, () => random.pick(FIELDS))
        const time = START + BigInt(random.below(2) * 300 + step) * MS
        const fields = Object.fromEntries(names.map((name) => [name, random.below(1000) / 4]))
        return { tags: { host: random.pick(HOSTS) }, time, fields }
      })
      db.write(wide, points)
      for (const { tags, time, fields } of points)
        for (const [name, value] of Object.entries(fields)) wanted.set(`${name} ${tags?.host} ${time}`, value as number)
      if (random.chance(0.02)) segments.freeze()
      if (random.chance(0.02)) await segments.flush()
      if (!random.chance(0.3)) continue
      const field = random.pick(FIELDS)
      const expected = [...wanted].flatMap(([key, value]) => (key.startsWith(`${field} `) ? [`${key.slice(field.length + 1)} ${value}`] : [])).sort()
      const snapshot = db.state.snapshotNow() as Snapshot
      const request = { namespace: 'default', measurement: 'wide', field }
      const found: string[] = []
      const set = await selectSamples(await context(), snapshot, request, undefined)
      for await (const { first, starts, times, values } of set.blocks())
        for (let s = 0; s + 1 < starts.length; s++)
          for (let i = starts[s]; i < starts[s + 1]; i++) found.push(`${set.tags.at(first + s)[1]} ${BigInt(times[i]) * MS} ${values[i]}`)
      if (found.sort().join() !== expected.join()) throw new Error(`step ${step}: samples of ${field} are ${found}, not ${expected}`)
      const active = await selectActive(await context(), snapshot, request, undefined)
      const hosts = [...new Set(expected.map((line) => line.split(' ')[0]))]
      const activeHosts = Array.from(active.series, (_, i) => active.tags.at(i)[1]).sort()
      if (activeHosts.join() !== hosts.join()) throw new Error(`step ${step}: series of ${field} are ${activeHosts}, not ${hosts}`)
      const reader = await EngineReader.open(await context())
      try {
        const rows: string[] = []
        const query = `SELECT host, _time, ${field} FROM wide WHERE ${field} IS NOT NULL`
        for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query }))
          for (let i = 0; i < count; i++) rows.push(columns.map(({ values }) => String(values[i])).join(' '))
        if (rows.sort().join() !== expected.join()) throw new Error(`step ${step}: rows of ${field} are ${rows}, not ${expected}`)
      } finally {
        reader.close()
      }
      compared += expected.length
    }
    return compared
  } finally {
    db.close()
  }
}

t.test(`what was written is read, SVC_SEED=${seed}`, { timeout: 60_000 }, async (t) => {
  let compared = 0
  for (let run = seed; run < seed + 4; run++) {
    await t.resolves(async () => {
      compared += await randomRun(run)
    }, `SVC_SEED=${run}`)
  }
  t.ok(compared > 0)
})
