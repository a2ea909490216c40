/** The memory of what fired, compared with one that forgets nothing. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type CooldownChanges, Cooldowns, type TriggerCooldowns } from './cooldowns.ts'
import { type KeptSpans, Spans } from './spans.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const random = seeded(seed)
const below = (n: number): number => Math.floor(random() * n)
const changesOf = (): CooldownChanges => ({ put: new Map(), deleted: new Set(), floors: new Map() })
const triggerOf = (id: string, cooldown: bigint): TriggerCooldowns => ({ id, cooldown, floor: undefined, bySeries: new Map() })

t.test(`spans say what all times that fired say, seed ${seed}`, (t) => {
  for (let run = 0; run < 200; run++) {
    const cooldown = BigInt([0, 1, 5, 30][below(4)])
    const all: bigint[] = []
    let spans = new Spans()
    for (let i = 0; i < 100; i++) {
      const time = BigInt(below([20, 500, 5000][run % 3]))
      const expected = all.some((fired) => fired === time || (time > fired - cooldown && time < fired + cooldown))
      if (spans.isSilent(time, cooldown) !== expected) throw new Error(`seed ${seed}, run ${run}: ${time} after ${all} with ${cooldown}`)
      if (!expected) {
        spans.add(time, cooldown, 1000)
        all.push(time)
      }
      if (below(10) === 0) spans = Spans.from(JSON.parse(JSON.stringify(spans.kept())), cooldown)
    }
  }
  t.pass()
  t.end()
})

t.test('a bounded number of spans forgets late times, and fires never twice', (t) => {
  for (let run = 0; run < 100; run++) {
    const spans = new Spans()
    const fired = new Set<bigint>()
    let silent = 0
    for (let i = 0; i < 500; i++) {
      const time = BigInt(i * 3 + below(200))
      if (spans.isSilent(time, 0n)) {
        silent++
        continue
      }
      if (fired.has(time)) throw new Error(`seed ${seed}: ${time} fired twice`)
      fired.add(time)
      spans.add(time, 0n, 8)
      t.ok(spans.kept().spans.length <= 16)
    }
    if (fired.size < 50 || silent === 0) throw new Error(`seed ${seed}: ${fired.size} fired`)
  }
  t.end()
})

t.test('times less than two cooldowns apart are one span, whatever comes first', (t) => {
  for (const order of [
    [0, 1, 2, 3, 4, 5],
    [5, 4, 3, 2, 1, 0],
    [0, 5, 2, 4, 1, 3],
  ]) {
    const spans = new Spans()
    for (const i of order) spans.add(BigInt(i * 19), 10n)
    t.same(spans.kept(), { spans: ['0', '95'] }, String(order))
    spans.add(115n, 10n)
    t.same(spans.kept().spans.length, 4, 'two cooldowns apart are two')
  }
  t.end()
})

t.test('times of today, at the edges of the cooldown', (t) => {
  const cooldown = 300_000_000_000n
  const time = 1_700_000_000_000_000_001n
  const spans = new Spans()
  spans.add(time, cooldown)
  const halves = (nanos: bigint): [number, number] => [Number(BigInt.asIntN(32, nanos)), Number(nanos >> 32n)]
  for (const [at, expected] of [
    [time + cooldown, false],
    [time + cooldown - 1n, true],
    [time - cooldown, false],
    [time - cooldown + 1n, true],
  ] as const) {
    t.equal(spans.isSilent(at, cooldown), expected, String(at))
    if (!expected) t.equal(spans.isSurelySilent(...halves(at)), false)
  }
  t.equal(spans.isSurelySilent(...halves(time + 1_000_000n)), true)
  t.end()
})

t.test('entries are bounded; what was forgotten never fires twice, over restarts', (t) => {
  const store = new Map<string, KeptSpans>()
  const floors = new Map<string, bigint>()
  const fired = new Set<string>()
  const most = 20
  let ids = [triggerOf('a', 10n), triggerOf('b', 0n)]
  let cooldowns = new Cooldowns(() => most)
  let number = 0
  let names = new Map<number, number>()
  for (let i = 0; i < 20_000; i++) {
    const trigger = ids[below(2)]
    const host = below(40)
    const time = BigInt(Math.floor(i / 20) + below(30))
    const series = names.get(host) ?? number++
    names.set(host, series)
    const changes = changesOf()
    const [low, high] = [Number(time), 0]
    if (cooldowns.judge(trigger, series, low, high, () => ({ host: String(host) }), changes) === 'fires') {
      const point = `${trigger.id} ${host} ${time}`
      if (fired.has(point)) throw new Error(`seed ${seed}: ${point} fired twice`)
      fired.add(point)
    }
    for (const key of changes.deleted) store.delete(key)
    for (const [key, spans] of changes.put) store.set(key, structuredClone(spans))
    for (const [id, floor] of changes.floors) floors.set(id, floor)
    if (cooldowns.size > most || store.size > most) throw new Error(`${cooldowns.size} entries`)
    if (below(500) === 0) {
      // Another process: other numbers, the same tags.
      ids = ids.map(({ id, cooldown }) => ({ ...triggerOf(id, cooldown), floor: floors.get(id) }))
      cooldowns = new Cooldowns(() => most)
      for (const [key, spans] of store) cooldowns.load(key, ids.find(({ id }) => key.startsWith(`${id}/`)) as TriggerCooldowns, spans)
      names = new Map()
    }
  }
  t.ok(fired.size > 500, `${fired.size} fired`)
  const keys = cooldowns.drop('a')
  t.ok(keys.every((key) => key.startsWith('a/')))
  t.equal(cooldowns.size, store.size - keys.length)
  t.end()
})

t.test('what fires and is forgotten in one go is not kept', (t) => {
  const trigger = triggerOf('a', 0n)
  const cooldowns = new Cooldowns(() => 1)
  const changes = changesOf()
  const fire = (i: number) => cooldowns.judge(trigger, i, i, 0, () => ({ host: String(i) }), changes)
  t.same([fire(1), fire(2)], ['fires', 'fires'])
  t.equal(changes.put.size, 1)
  t.equal(changes.deleted.size, 1)
  t.notOk([...changes.deleted].some((key) => changes.put.has(key)))
  // The first of them comes again, later than all.
  t.equal(fire(3), 'fires')
  t.equal(
    cooldowns.judge(trigger, 1, 4, 0, () => ({ host: '1' }), changes),
    'fires',
  )
  t.equal(changes.put.size, 1)
  t.notOk([...changes.put.keys()].some((key) => changes.deleted.has(key)))
  t.end()
})

t.test('who fired longest ago is forgotten first', (t) => {
  const trigger = triggerOf('a', 0n)
  const cooldowns = new Cooldowns(() => 2)
  const fire = (series: number, time: number) => cooldowns.judge(trigger, series, time, 0, () => ({ host: String(series) }), changesOf())
  for (const [series, time] of [
    [1, 10],
    [2, 20],
    [1, 30],
    [3, 40],
  ])
    t.equal(fire(series, time), 'fires')
  t.equal(fire(1, 15), 'fires', 'it is known what has fired of it')
  t.equal(fire(2, 15), 'forgotten')
  t.end()
})

t.test('a smaller bound is come to in steps', (t) => {
  let most = 5000
  const trigger = triggerOf('a', 0n)
  const cooldowns = new Cooldowns(() => most)
  const fire = (i: number, changes = changesOf()): number => {
    cooldowns.judge(trigger, i, i, 0, () => ({ host: String(i) }), changes)
    return changes.deleted.size
  }
  for (let i = 1; i <= most; i++) fire(i)
  most = 100
  const deleted = Array.from({ length: 500 }, (_, i) => fire(5001 + i))
  t.equal(Math.max(...deleted), 16, 'of one that fires')
  t.equal(deleted.at(-1), 1)
  t.equal(cooldowns.size, 100)
  t.end()
})
