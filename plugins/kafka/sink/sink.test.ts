/** A sink over brokers in memory: random lives with crashes at any wait, and each way in which sends fail. */
import { setImmediate as turn } from 'node:timers/promises'
import type { Change, StateStore } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import type { SinkPosition } from './position.ts'
import { SendError, type SinkLibrary } from './producer.ts'
import { FakeBrokers, type Kept, type SinkNode, sinkNode } from './testing.ts'

const SEEDS = Number(process.env.SVC_SEEDS ?? 25)
const FROM = Number(process.env.SVC_SEED ?? 1)

interface Frame {
  position: string
  /** Frames of its change up to it. */
  frames: number
  key: string
  id: string
}

/** What is to come, by a reader of its own. */
async function follow(node: SinkNode, wanted: (measurement: string) => boolean): Promise<{ frames: Frame[]; close(): void }> {
  const frames: Frame[] = []
  const cursor = node.node.storage.changes({ measurements: wanted })
  await cursor.position()
  const run = async (): Promise<void> => {
    for await (const change of cursor) for (const frame of framesOf(change)) frames.push(frame)
  }
  void run()
  return { frames, close: () => cursor.close() }
}

function* framesOf(change: Change): Generator<Frame> {
  const { position } = change
  if (change.kind === 'gap') yield { position, frames: 1, key: 'gap', id: `gap ${change.cause}` }
  else if (change.kind === 'rows') {
    const [column] = change.columns
    for (let row = 0; row < change.rows; row++) {
      const { host } = change.tagsOf(change.series[row])
      yield { position, frames: row + 1, key: `${change.measurement},host=${host}`, id: `${column.f64[row]}` }
    }
  } else if (change.kind === 'series_deleted') {
    let n = 0
    for (const { host } of change.series?.() ?? [])
      yield { position, frames: ++n, key: `${change.measurement},host=${host}`, id: `deleted ${change.sequence} ${host}` }
    if (change.series === undefined) yield { position, frames: 1, key: change.measurement, id: `deleted ${change.sequence} all` }
  } else yield { position, frames: 1, key: change.measurement, id: `${change.kind} ${change.sequence}` }
}

function idOf({ value }: { value: string }): string {
  const { PointWritten, SeriesDeleted, MeasurementDropped, MeasurementRestored, Gap } = JSON.parse(value)
  if (PointWritten !== undefined) return `${PointWritten.fields.v.F64}`
  if (SeriesDeleted !== undefined) return `deleted ${SeriesDeleted.seq} ${SeriesDeleted.series_hash === null ? 'all' : SeriesDeleted.tags.host}`
  if (MeasurementDropped !== undefined) return `measurement_dropped ${MeasurementDropped.seq}`
  if (MeasurementRestored !== undefined) return `measurement_restored ${MeasurementRestored.seq}`
  return `gap ${Gap.cause}`
}

/** All of a key came in its order, once what came again is left out. */
function inOrder(t: Test, frames: readonly Frame[], records: readonly Kept[]): void {
  const byKey = (pairs: Iterable<readonly [string, string]>): Map<string, Set<string>> => {
    const keys = new Map<string, Set<string>>()
    for (const [key, id] of pairs) keys.set(key, (keys.get(key) ?? new Set()).add(id))
    return keys
  }
  const expected = byKey(frames.map(({ key, id }) => [key, id] as const))
  const came = byKey(records.map((record) => [record.key, idOf(record)] as const))
  t.same([...came.keys()].sort(), [...expected.keys()].sort())
  for (const [key, ids] of expected) {
    const [wanted, got] = [[...ids], [...(came.get(key) ?? [])]]
    const at = wanted.findIndex((id, i) => id !== got[i])
    t.same(at < 0 ? [] : got.slice(at, at + 3), at < 0 ? [] : wanted.slice(at, at + 3), `${key} in order, from ${at} on`)
    t.equal(got.length, wanted.length, `${key} whole, and no more`)
  }
}

async function positionIn(node: SinkNode): Promise<SinkPosition | undefined> {
  return (await node.state.list<SinkPosition>({ prefix: 'sinks/one/' }))[0]?.value
}

async function life(t: Test, seed: number): Promise<void> {
  const random = seeded(seed)
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  const told = await follow(node, (measurement) => measurement !== 'other')
  const acknowledged = new Set<string>()
  let next = 0
  const write = async (): Promise<void> => {
    if (random() < 0.08 && next > 0) {
      const statement = random() < 0.7 ? { measurement: 'a', tags: { host: `h${Math.floor(random() * 4)}` } } : { measurement: 'b' }
      await node.node.inject({ method: 'POST', url: '/api/v1/delete', payload: statement }).catch(() => {})
      return
    }
    const lines: string[] = []
    const many = random() < 0.1 ? 1500 : 1 + Math.floor(random() * 20)
    for (let i = 0; i < many; i++) {
      const measurement = random() < 0.1 ? 'other' : random() < 0.5 ? 'a' : 'b'
      lines.push(`${measurement},host=h${Math.floor(random() * 4)} v=${next++} ${1_700_000_000_000_000_000n + BigInt(next)}`)
    }
    await node.write(lines.join('\n'))
  }
  const pauses = async (): Promise<void> => {
    for (let i = Math.floor(random() * 4); i > 0; i--) await turn()
  }
  const checkPosition = ({ position, partial }: SinkPosition): void => {
    for (const frame of told.frames) {
      const before = frame.position <= position || (frame.position === partial?.position && frame.frames <= partial.frames)
      if (before && !acknowledged.has(frame.id))
        throw new Error(`seed ${seed}: ${frame.id} at ${frame.position} is not acknowledged, and the position is ${position}`)
    }
  }
  const lives = 4
  for (let number = 1; number <= lives; number++) {
    const last = number === lives
    let dead = false
    const gone = new AbortController()
    /** Between any two waits the process may be gone: nothing comes back then. */
    const alive = async <T>(work: () => Promise<T> | T): Promise<T> => {
      await pauses()
      if (dead) return new Promise(() => {})
      const result = await work()
      await pauses()
      return dead ? new Promise(() => {}) : result
    }
    const chance = last ? 0 : 0.25
    brokers.admit = () =>
      alive(() => {
        if (random() < chance) throw new SendError(random() < 0.5 ? 'away' : 'refused', 'no broker')
      })
    brokers.behave = (records) =>
      alive(() => {
        const outcome = random() < chance ? (['fail', 'take and fail', 'take a part'] as const)[Math.floor(random() * 3)] : 'take'
        if (outcome === 'take') for (const { value } of records) acknowledged.add(idOf({ value: `${value}` }))
        return outcome as 'take'
      })
    const state: StateStore = {
      get: (key) => alive(() => node.state.get(key)),
      list: (range) => alive(() => node.state.list(range)),
      transaction: (body) =>
        alive(() => {
          if (random() < chance) throw new Error('the state store is full')
          return node.state.transaction(async (tx) => {
            const put = tx.put.bind(tx)
            return body({
              get: tx.get.bind(tx),
              list: tx.list.bind(tx),
              delete: tx.delete.bind(tx),
              put: (key, value) => {
                checkPosition(value as SinkPosition)
                put(key, value)
              },
            })
          })
        }),
    }
    const storage = {
      changes: (request: { signal?: AbortSignal }) =>
        node.node.storage.changes({ ...request, signal: AbortSignal.any([gone.signal, ...(request.signal === undefined ? [] : [request.signal])]) }),
    }
    const config = { measurements: ['a', 'b*'], max_batch_bytes: random() < 0.5 ? 20_000 : 900_000 }
    const library: SinkLibrary = {
      open: async (options) => {
        const session = await alive(() => brokers.library.open(options))
        return { close: () => session.close(), send: (records) => (dead ? new Promise(() => {}) : session.send(records)) }
      },
    }
    const sink = node.sink(brokers, config, { storage: storage as never, state, library, drainMs: 200 })
    sink.start()
    // The first life is to have a position before anything is written.
    if (number === 1) await until('the first position is kept', async () => (await positionIn(node)) !== undefined)
    for (let i = 0; i < 15; i++) {
      await write()
      await pauses()
    }
    if (last) {
      await until(`seed ${seed}: all is sent`, () => told.frames.every(({ id }) => acknowledged.has(id)))
      await sink.stop()
      t.equal(sink.status().status, 'stopped')
      t.equal(brokers.open, 0, 'no session is left')
    } else if (random() < 0.3) await sink.stop()
    else {
      dead = true
      gone.abort()
      brokers.open = 0
    }
  }
  inOrder(t, told.frames, brokers.records)
  const kept = await positionIn(node)
  t.ok(kept !== undefined)
  checkPosition(kept as SinkPosition)
  told.close()
}

t.test(`random lives: SVC_SEED=${FROM}`, async (t) => {
  for (let seed = FROM; seed < FROM + SEEDS; seed++) await t.test(`seed ${seed}`, (t) => life(t, seed))
})

t.test('records: topic, key, headers, and what a line is', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  const json = node.sink(brokers, { topic: undefined as never, topic_template: 'svc.{namespace}.{measurement}' })
  const lines = node.sink(brokers, { name: 'two', format: 'line_protocol', topic: 'lines' })
  json.start()
  lines.start()
  await until('both are up', () => json.status().up && lines.status().up)
  await node.write('a\\ b,host=h\\,1 v=1,s="x" 1700000000000000001')
  await until('both have it', () => brokers.records.length === 2)
  const [one] = brokers.records.filter(({ topic }) => topic !== 'lines')
  t.match(one, { topic: 'svc.default.a-20b', key: 'a\\ b,host=h\\,1', headers: { 'svc-time': '1700000000000000001', 'svc-position': /^[0-9a-f]{16}-/ } })
  t.match(JSON.parse(one.value), { PointWritten: { measurement: 'a b', tags: { host: 'h,1' }, fields: { v: { F64: 1 }, s: { String: 'x' } } } })
  t.match(brokers.records, [{ topic: 'lines', value: 'a\\ b,host=h\\,1 v=1,s="x" 1700000000000000001' }].slice(0, 0))
  t.equal(brokers.records.find(({ topic }) => topic === 'lines')?.value, 'a\\ b,host=h\\,1 v=1,s="x" 1700000000000000001')
  await node.node.inject({ method: 'POST', url: '/api/v1/delete', payload: { measurement: 'a b' } })
  await Promise.all([json.stop(), lines.stop()])
  t.equal(json.status().status, 'stopped')
  await json.stop()
})

t.test('nothing is behind once all is sent, deletes of series included', async (t) => {
  const node = await sinkNode(t, 'embedded')
  const brokers = new FakeBrokers()
  const sink = node.sink(brokers)
  sink.start()
  await until('it is up', () => sink.status().up)
  await node.write('m,host=a v=1 1700000000000000000\nm,host=b v=2 1700000000000000000')
  for (const host of ['a', 'b']) {
    const answer = await node.node.inject({ method: 'POST', url: '/api/v1/delete', payload: { measurement: 'm', tags: { host } } })
    t.match(answer.json(), { deleted: 1 })
  }
  await until('all is sent', () => brokers.records.length === 4)
  await until('and nothing is behind', () => sink.lag() === 0 && sink.lagSeconds() === 0)
  await sink.stop()
})

t.test('sinks of one name on databases of their own, which share their state, each keep their position', async (t) => {
  const nodes = [await sinkNode(t), await sinkNode(t)]
  const [{ state }] = nodes
  const brokers = [new FakeBrokers(), new FakeBrokers()]
  const sink = (i: number) => nodes[i].sink(brokers[i], {}, { state, shared: true })
  const running = [sink(0), sink(1)]
  for (const each of running) each.start()
  await until('both are up', () => running.every((each) => each.status().up))
  for (const [i, node] of nodes.entries()) await node.write(`m,node=${i} v=1 1`)
  await until('each has sent its own', () => brokers.every(({ records }) => records.length === 1))
  for (const each of running) await each.stop()
  for (const [i, node] of nodes.entries()) await node.write(`m,node=${i} v=2 2`)
  for (const i of [0, 1]) {
    const again = sink(i)
    again.start()
    await until('it goes on where it was', () => brokers[i].records.length === 2)
    await again.stop()
    t.same(
      brokers[i].records.map(({ value }) => JSON.parse(value).PointWritten.tags.node),
      [`${i}`, `${i}`],
      'and tells no gap',
    )
  }
})

t.test('a position that was kept by the name alone is gone on from', async (t) => {
  for (const shared of [false, true]) {
    const node = await sinkNode(t)
    const brokers = new FakeBrokers()
    const probe = node.node.storage.changes({})
    const position = await probe.position()
    probe.close()
    await node.write('m v=1 1')
    await node.state.transaction((tx) => tx.put('sinks/one', { position }))
    const sink = node.sink(brokers, {}, { shared })
    sink.start()
    await until('what was written since is sent', () => brokers.records.length === 1)
    await sink.stop()
    t.equal(await node.state.get('sinks/one'), undefined, 'it is kept once')
    t.ok(await positionIn(node))
  }
})

t.test('a gap is told, with its range and cause', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  await node.state.transaction((tx) => tx.put('sinks/one', { position: `${'0'.repeat(16)}-00000000000001-00000000000000` }))
  for (const [format, topic] of [
    ['json', 'all'],
    ['line_protocol', 'lines'],
  ] as const) {
    if (format === 'line_protocol') await node.state.transaction((tx) => tx.put('sinks/two', { position: `${'0'.repeat(16)}-00000000000001-00000000000000` }))
    const sink = node.sink(brokers, { format, topic, name: format === 'json' ? 'one' : 'two' })
    sink.start()
    await until('it is told', () => brokers.records.some((record) => record.topic === topic))
    await sink.stop()
  }
  const [json, line] = brokers.records
  t.match(JSON.parse(json.value), { Gap: { from: /^0{16}-/, to: String, cause: 'other_history' } })
  t.match(line.value, /^# \{"Gap":/)
  t.match(json, { key: 'gap', headers: { 'svc-event': 'gap' } })
})

t.test('what is too large, or refused as a record, is a dead letter, and holds up nothing', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  brokers.maxBytes = 3000
  const letters: { topic: string; body: Uint8Array; code: string }[] = []
  const life = { letters: { add: async (letter: (typeof letters)[number]) => void letters.push(letter), close: async () => {} } }
  const sink = node.sink(brokers, { max_message_bytes: 5000 }, life)
  sink.start()
  await until('it is up', () => sink.status().up)
  const text = (n: number): string => `m,n=${n} s="${'x'.repeat(n)}" ${1_700_000_000_000_000_000n + BigInt(n)}`
  await node.write([1, 2, 3500, 3, 6000, 4].map(text).join('\n'))
  await until('those that can be sent are', () => sink.status().acknowledged === 4)
  t.same(letters.map(({ body }) => JSON.parse(`${Buffer.from(body)}`).PointWritten.tags.n).sort(), ['3500', '6000'])
  t.ok(letters.every(({ code, topic }) => code === 'PAYLOAD_TOO_LARGE' && topic === 'all'))
  t.match(sink.status(), { deadLettered: 2, points: 4 })
  await sink.stop()
  t.ok((await positionIn(node)) !== undefined)
})

t.test('the log has a sample of what cannot be sent, and says how much it has left out', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  const logged: object[] = []
  const log = { info() {}, debug() {}, error() {}, warn: (o: object, text: string) => void (text.includes('dead letters') && logged.push(o)) }
  const sink = node.sink(brokers, { max_message_bytes: 2000 }, { log: log as never, letters: { add: async () => {}, close: async () => {} } })
  sink.start()
  await until('it is up', () => sink.status().up)
  const large = (count: number): string => Array.from({ length: count }, (_, n) => `m,n=${n} s="${'x'.repeat(3000)}" ${n + 1}`).join('\n')
  await node.write(large(200))
  await until('all are dead letters', () => sink.status().deadLettered === 200)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  await node.write(large(1))
  await until('one more', () => sink.status().deadLettered === 201)
  t.ok(logged.length < 60, `${logged.length} lines for 201 changes`)
  t.ok(logged.some((line) => 'more' in line))
  await sink.stop()
})

t.test('a dead letter that cannot be kept is no dead letter: nothing behind it is sent before', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  let full = true
  let added = 0
  const letters = {
    add: async () => {
      if (full) throw new Error('the disk is full')
      added++
    },
    close: async () => {},
  }
  const sink = node.sink(brokers, { max_message_bytes: 2000 }, { letters })
  sink.start()
  await until('it is up', () => sink.status().up)
  await node.write(`m s="${'x'.repeat(3000)}" 1`)
  await until('it says why', () => typeof sink.status().status === 'object')
  t.match(sink.status(), { status: { failed: 'the disk is full' }, up: false })
  await node.write('m s="y" 2')
  t.equal(brokers.records.length, 0)
  full = false
  await until('it goes on', () => brokers.records.length === 1)
  t.equal(added, 1)
  await sink.stop()
})

t.test('brokers that are away, refuse, or never answer', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  let error: Error | undefined = new SendError('away', 'connect ECONNREFUSED')
  brokers.admit = async () => {
    if (error !== undefined) throw error
  }
  const sink = node.sink(brokers, {}, { drainMs: 50 })
  t.equal(sink.status().status, 'stopped')
  sink.start()
  await until('it has tried', () => sink.status().lastError !== undefined)
  t.match(sink.status(), { status: 'reconnecting', up: false, lastError: /ECONNREFUSED/ })
  error = new SendError('refused', 'SASL authentication failed')
  await until('it is refused', () => typeof sink.status().status === 'object')
  t.match(sink.status(), { status: { failed: 'SASL authentication failed' }, up: false })
  for (let i = 0; i < 20; i++) await node.write(`m v=${i} ${i + 1}`)
  t.ok((sink.lag() ?? 0) > 0)
  t.ok(sink.lagSeconds() >= 0)
  error = undefined
  await until('it sends all', () => brokers.records.length === 20)
  await until('nothing is left', () => sink.lag() === 0 && sink.lagSeconds() === 0)
  t.match(sink.status(), { status: 'running', up: true, points: 20 })
  brokers.behave = () => new Promise(() => {})
  await node.write('m v=1 100')
  await until('it is under way', () => sink.status().inFlight.messages === 1)
  await sink.stop()
  t.match(sink.status(), { status: 'stopped', up: false })
  t.ok(node.node.storage, 'and what was under way comes with the next start')
  brokers.behave = async () => 'take'
  const again = node.sink(brokers)
  again.start()
  await until('it has come', () => brokers.records.length === 21)
  await again.stop()
})

t.test('brokers that are slow hold up no writer, and little is in memory', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  let release: () => void = () => {}
  brokers.behave = async () => {
    await new Promise<void>((resolve) => {
      release = resolve
    })
    return 'take'
  }
  const sink = node.sink(brokers, { max_batch_bytes: 20_000 })
  sink.start()
  await until('it is up', () => sink.status().up)
  for (let i = 0; i < 40; i++) await node.write(Array.from({ length: 500 }, (_, n) => `m,n=${n} v=${i} ${i * 1000 + n + 1}`).join('\n'))
  await until('a batch is under way', () => sink.status().inFlight.messages > 0)
  t.ok(sink.status().inFlight.messages <= 1000)
  t.ok((sink.lag() ?? 0) > 30, 'the others wait in the log')
  brokers.behave = async () => 'take'
  release()
  await until('all is sent', () => sink.status().acknowledged === 20_000)
  await sink.stop()
})
