/** What waits for the upstream of one namespace holds up no other, and its own order is kept. Seeds are printed; SVC_SEED repeats one, SVC_SEEDS says how many. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../test/support/until.ts'
import { f64, i64, lines, NOW, NOW_MS, str, type TestPoint, write } from '../conformance/points.ts'
import { type ForwardEngine, realEnvironment } from './engine.ts'
import { edgeOf, upstream } from './testing.ts'

const point = (n: number, fields: TestPoint['fields'] = { v: i64(BigInt(n)) }): TestPoint => ({
  measurement: 'cpu',
  tags: { host: `h${n % 3}` },
  time: NOW + BigInt(n),
  fields,
})

/** Pauses take a millisecond, and the sender's clock goes on as if they had been as long as they should be. */
function impatient() {
  let skippedMs = 0
  return {
    ...realEnvironment,
    monotonic: () => performance.now() + skippedMs,
    pause: async (ms: number, signal: AbortSignal) => {
      const real = Math.min(ms, 1)
      skippedMs += ms - real
      await realEnvironment.pause(real, signal)
    },
  }
}

/** A node with namespaces of their own, which says what it was asked for: the namespace and the numbers of the points, and what it made of them. */
async function node(t: Test) {
  const refusals = new Map<string, ErrorCode>()
  const requests: { namespace: string; numbers: number[]; refused: ErrorCode | undefined }[] = []
  const plugin = definePlugin({
    id: 'moody',
    summary: 'Refuses namespaces',
    stability: 'experimental',
    capabilities: ['points'],
    setup(svc) {
      svc.ingest.admit((batch, { namespace }) => {
        const refused = refusals.get(namespace) ?? refusals.get('')
        const numbers = batch.tables.flatMap(({ rows, time, position }) =>
          Array.from({ length: rows }, (_, row) => ({ at: position[row], number: (time[row * 2] - Number(BigInt.asIntN(32, NOW))) | 0 })),
        )
        requests.push({ namespace, numbers: numbers.sort((a, b) => a.at - b.at).map(({ number }) => number), refused })
        if (refused !== undefined) throw new SvcError(refused, 'for the test', { headers: { 'retry-after': '0' } })
      })
    },
  })
  const { node, url } = await upstream(t, { plugins: [plugin], config: { server: { multi_tenancy: true, allow_open: true } } })
  const taken = (namespace: string): number[] =>
    requests.filter((one) => one.namespace === namespace && one.refused === undefined).flatMap((one) => one.numbers)
  const stored = async (namespace: string): Promise<string[]> => lines(node.storage, { namespace, measurement: 'cpu' }).catch(() => [])
  return { storage: node.storage, url, refusals, requests, taken, stored }
}

type Node = Awaited<ReturnType<typeof node>>

function edgeTo(t: Test, { url }: Pick<Node, 'url'>, forward: Record<string, unknown> = {}) {
  const dir = temporaryFolder(t)
  const clock = { ms: NOW_MS }
  const said: string[] = []
  const environment = { ...impatient(), monotonic: () => realEnvironment.monotonic() + clock.ms - NOW_MS }
  const say = (given: object, text?: string) => void said.push(`${text} ${JSON.stringify(given)}`)
  const start = async (more: Record<string, unknown> = {}): Promise<ForwardEngine> => {
    const config = { data_dir: dir, forward: { upstream: [{ name: 'one', url }], ...forward, ...more } }
    const engine = edgeOf(config, { now: () => clock.ms, environment, log: { debug() {}, info: say, warn: say, error: say } })
    await engine.open()
    t.teardown(() => engine.close())
    return engine
  }
  const placesFile = join(dir, 'positions', 'upstream.json')
  const queueFiles = () => readdirSync(join(dir, 'queue'))
  return { dir, clock, said, environment, start, placesFile, queueFiles }
}

const waiting = (engine: ForwardEngine): number | null => engine.connectors()[0].lag()
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

for (const code of ['NOT_FOUND', 'FORBIDDEN', 'RATE_LIMITED'] as const) {
  t.test(`a namespace that is refused (${code}) holds up no other, and gets there in order when it is taken again`, async (t) => {
    const there = await node(t)
    const { start, said } = edgeTo(t, there, { batch_points: 4 })
    there.refusals.set('red', code)
    const edge = await start()
    for (const n of range(0, 30)) await write(edge, [point(n)], { namespace: n % 3 === 0 ? 'red' : n % 3 === 1 ? 'green' : 'blue' })
    await eventually(async () => (await there.stored('green')).length + (await there.stored('blue')).length === 20)
    await eventually(() => waiting(edge) === 10)
    t.same(there.taken('red'), [], 'nothing of it is taken')
    t.ok(said.some((text) => text.includes('others go on') && text.includes('"namespace":"red"') && text.includes(code)))
    there.refusals.delete('red')
    await write(edge, [point(30)], { namespace: 'red' })
    await edge.drained()
    for (const [i, namespace] of ['red', 'green', 'blue'].entries()) {
      const expected = range(0, 31).filter((n) => n % 3 === i)
      t.same(there.taken(namespace), expected, `${namespace} in order, each point once`)
      t.equal((await there.stored(namespace)).length, expected.length)
    }
    t.equal(edge.connectors().length, 1, 'nothing is parked any more')
  })
}

t.test('of a namespace that was refused all gets there, in order, though live points and a backfill take turns', async (t) => {
  const there = await node(t)
  const { start } = edgeTo(t, there)
  there.refusals.set('red', 'FORBIDDEN')
  const edge = await start()
  for (const n of range(0, 12)) await write(edge, [point(n)], { namespace: 'red', backfill: n % 3 === 1 })
  await write(edge, [point(12)], { namespace: 'blue' })
  await eventually(() => there.taken('blue').length === 1)
  there.refusals.delete('red')
  await edge.drained()
  t.same(there.taken('red'), range(0, 12))
})

t.test('the status says which namespace waits and why, and not that the upstream is down while others flow', async (t) => {
  const there = await node(t)
  const { start } = edgeTo(t, there)
  there.refusals.set('red', 'FORBIDDEN')
  const edge = await start()
  await write(edge, [point(0)], { namespace: 'red' })
  await write(edge, [point(1), point(2)], { namespace: 'blue' })
  await eventually(() => there.taken('blue').length === 2 && there.requests.filter(({ namespace }) => namespace === 'red').length > 3)
  const [whole, parked] = edge.connectors()
  t.match(whole.status(), { name: 'forward-upstream', status: 'running', up: true })
  t.match(parked, { name: 'forward-upstream.parked', type: 'forward', namespace: '' })
  t.match(parked.status(), { status: { failed: /^1 namespaces wait, "red" for: one: .*FORBIDDEN: for the test/ }, up: false })
  t.same([whole.lag(), parked.lag()], [1, 1])
  there.refusals.set('red', 'RATE_LIMITED')
  await eventually(() => edge.connectors()[1].status().status === 'reconnecting')
  there.refusals.delete('red')
  await edge.drained()
  await eventually(() => edge.connectors().length === 1)
})

t.test('where nothing else flows, the upstream is said to refuse', async (t) => {
  const there = await node(t)
  const { start } = edgeTo(t, there)
  there.refusals.set('red', 'FORBIDDEN')
  const edge = await start()
  await write(edge, [point(0)], { namespace: 'red' })
  await eventually(() => !edge.connectors()[0].status().up)
  t.match(edge.connectors()[0].status().status, { failed: /FORBIDDEN/ })
  await write(edge, [point(1)], { namespace: 'blue' })
  await eventually(() => edge.connectors()[0].status().up)
})

t.test('what concerns the upstream as a whole holds up all of it', async (t) => {
  const there = await node(t)
  const { start } = edgeTo(t, there)
  for (const code of ['OVERLOADED', 'STORAGE_FULL', 'UNAUTHORIZED', 'DATABASE_ERROR', 'PRECONDITION_FAILED'] as const) {
    there.refusals.clear()
    there.refusals.set('red', code)
    there.requests.length = 0
    const edge = await start()
    await write(edge, [point(0)], { namespace: 'red' })
    await write(edge, [point(1)], { namespace: 'blue' })
    await eventually(() => there.requests.length > 5)
    t.ok(
      there.requests.every(({ namespace }) => namespace === 'red'),
      code,
    )
    there.refusals.clear()
    await edge.drained()
    await edge.close()
  }
})

t.test('restarts in between lose nothing and keep the order', async (t) => {
  const there = await node(t)
  const { start, placesFile } = edgeTo(t, there, { batch_points: 3 })
  there.refusals.set('red', 'NOT_FOUND')
  const write10 = async (edge: ForwardEngine, from: number) => {
    for (const n of range(from, from + 10)) await write(edge, [point(n)], { namespace: n % 2 === 0 ? 'red' : 'blue' })
  }
  for (const life of [0, 1, 2]) {
    const edge = await start()
    await write10(edge, life * 10)
    await eventually(() => waiting(edge) === (life + 1) * 5)
    await edge.close()
    const noted = JSON.parse(readFileSync(placesFile, 'utf8'))
    t.match(noted, { version: 1, sequence: 0, points: 0, main: { sequence: (life + 1) * 10 }, parked: [{ namespace: 'red', sequence: 0 }] })
    t.equal(
      noted.passed.reduce((sum: number, [, records]: number[]) => sum + records, 0),
      (life + 1) * 5,
    )
  }
  const sent = there.taken('blue').length
  there.refusals.clear()
  const edge = await start()
  await write10(edge, 30)
  await edge.drained()
  t.same(
    there.taken('red'),
    range(0, 40).filter((n) => n % 2 === 0),
  )
  t.same([sent, there.taken('blue').length], [15, 20], 'the others are not sent again')
})

t.test('a server that knows no parked namespaces sends again what was sent, and skips nothing', async (t) => {
  const there = await node(t)
  const { start, placesFile } = edgeTo(t, there)
  there.refusals.set('red', 'NOT_FOUND')
  const edge = await start()
  for (const n of range(0, 10)) await write(edge, [point(n)], { namespace: n % 2 === 0 ? 'red' : 'blue' })
  await eventually(() => waiting(edge) === 5)
  await edge.close()
  const { version, file, offset, sequence, points } = JSON.parse(readFileSync(placesFile, 'utf8'))
  writeFileSync(placesFile, JSON.stringify({ version, file, offset, sequence, points }))
  there.refusals.clear()
  const again = await start()
  await again.drained()
  t.same([(await there.stored('red')).length, (await there.stored('blue')).length], [5, 5])
})

/** 1,000 bytes each, so that there are many files. */
const large = (n: number): TestPoint => ({ ...point(n), fields: { v: str(`${n} `.padEnd(1000, 'x')) } })

t.test('the oldest are dropped for room with a namespace parked: what was sent is not counted, and files go', async (t) => {
  const there = await node(t)
  const { start, said, queueFiles } = edgeTo(t, there, { max_size: 4 << 20, file_size: 65_536, when_full: 'drop_oldest' })
  there.refusals.set('red', 'NOT_FOUND')
  const edge = await start()
  const red = 300 * 5
  for (let turn = 0; turn < 60; turn++) {
    const points = (n: number) => range(n * 5, n * 5 + 5).map(large)
    await Promise.all(range(turn * 20, turn * 20 + 20).map((n) => write(edge, points(n), { namespace: n % 4 === 0 ? 'red' : 'blue' })))
    // None of these is among the oldest, however slow it is to send them.
    await eventually(() => there.taken('blue').length === (turn + 1) * 15 * 5)
  }
  const dropped = () => said.reduce((sum, text) => sum + Number(/points were dropped from the queue .*"reason":"size".*"points":(\d+)/.exec(text)?.[1] ?? 0), 0)
  t.ok(dropped() > 0)
  there.refusals.clear()
  await edge.drained()
  t.equal(there.taken('red').length + dropped(), red, 'each point that is not there was counted')
  t.same(
    there.taken('red'),
    [...there.taken('red')].sort((a, b) => a - b),
  )
  await write(edge, [point(10_000)], { namespace: 'blue' })
  await edge.drained()
  t.ok(queueFiles().length <= 2, `${queueFiles().length} files are left`)
})

t.test('points of a parked namespace that are too old are dropped and counted, those of others are not', async (t) => {
  const there = await node(t)
  const { start, said, clock } = edgeTo(t, there, { max_age_secs: 60, file_size: 65_536 })
  there.refusals.set('red', 'NOT_FOUND')
  const edge = await start()
  for (const n of range(0, 100)) {
    await write(edge, [large(n)], { namespace: n % 2 === 0 ? 'red' : 'blue' })
    if (n === 49) await eventually(() => there.taken('blue').length === 25)
    if (n === 49) clock.ms += 61_000
  }
  await eventually(() => there.taken('blue').length === 50)
  there.refusals.clear()
  await edge.drained()
  const counted = said.reduce((sum, text) => sum + Number(/points were dropped from the queue .*"points":(\d+)/.exec(text)?.[1] ?? 0), 0)
  t.same(
    there.taken('red'),
    range(50, 100).filter((n) => n % 2 === 0),
  )
  t.ok(counted <= 25, `${counted} went with their file, the others one by one`)
})

t.test('a namespace that is let in now and then goes on from where it was, beside others', async (t) => {
  const there = await node(t)
  const { start } = edgeTo(t, there, { batch_points: 3 })
  let calls = 0
  there.refusals.get = (namespace: string) => (namespace === 'red' && ++calls % 3 !== 0 ? 'RATE_LIMITED' : undefined)
  const edge = await start()
  for (const n of range(0, 200)) await write(edge, [point(n)], { namespace: n % 2 === 0 ? 'red' : 'blue' })
  await edge.drained()
  t.same(
    there.taken('red'),
    range(0, 200).filter((n) => n % 2 === 0),
  )
  t.same(
    there.taken('blue'),
    range(0, 200).filter((n) => n % 2 === 1),
  )
})

t.test('one that has much to catch up with does not hold up another that waits for a moment', async (t) => {
  const there = await node(t)
  const { start } = edgeTo(t, there, { batch_points: 5, batch_bytes: 4096 })
  for (const namespace of ['slow', 'quick']) there.refusals.set(namespace, 'NOT_FOUND')
  const edge = await start()
  await Promise.all(range(0, 1000).map((n) => write(edge, [point(n)], { namespace: 'slow' })))
  await write(edge, [point(0)], { namespace: 'quick' })
  await eventually(() => there.requests.some(({ namespace }) => namespace === 'quick'))
  there.refusals.clear()
  await eventually(() => there.taken('quick').length === 1)
  t.ok(there.taken('slow').length < 900, `${there.taken('slow').length} came before it`)
  await edge.drained()
  t.same(there.taken('slow'), range(0, 1000))
})

t.test('many that flow again read the queue once between them', async (t) => {
  const there = await node(t)
  let bytes = 0
  const { fs } = realEnvironment
  const open = async (path: string, flags: string) => {
    const file = await fs.promises.open(path, flags)
    const read = async (buffer: Buffer, offset: number, length: number, position: number) => {
      if (path.endsWith('.queue')) bytes += length
      return file.read(buffer, offset, length, position)
    }
    return { read, writeFile: (given: Uint8Array) => file.writeFile(given), close: () => file.close() }
  }
  const { start, environment, dir } = edgeTo(t, there, { batch_bytes: 16_384, batch_points: 1000 })
  Object.assign(environment, { fs: { ...fs, promises: { ...fs.promises, open } } })
  const names = range(0, 50).map((n) => `n${n}`)
  for (const name of names) there.refusals.set(name, 'NOT_FOUND')
  const edge = await start()
  // Each has a point at the begin, and another one far behind it.
  await Promise.all(range(0, 50).map((n) => write(edge, [point(n)], { namespace: names[n] })))
  await Promise.all(range(0, 2000).map((n) => write(edge, [large(n)], { namespace: 'blue' })))
  await Promise.all(range(0, 50).map((n) => write(edge, [point(n + 50)], { namespace: names[n] })))
  await eventually(() => waiting(edge) === 100)
  const size = readdirSync(join(dir, 'queue')).reduce((sum, name) => sum + readFileSync(join(dir, 'queue', name)).length, 0)
  bytes = 0
  there.refusals.clear()
  await edge.drained()
  for (const [n, name] of names.entries()) t.same(there.taken(name), [n, n + 50])
  // Not 50 times; every other turn is one of its own.
  t.ok(bytes < size * 8, `${bytes} bytes of ${size} were read`)
})

t.test('one who invents namespaces takes no more than so many places: the others are set aside, and the known ones wait', async (t) => {
  const there = await node(t)
  const most = 100
  const { start, dir, placesFile } = edgeTo(t, there, { max_parked_namespaces: most })
  there.refusals.get = (namespace: string) => (namespace.startsWith('x') || namespace === refusedLate ? 'NOT_FOUND' : undefined)
  let refusedLate: string | undefined
  const edge = await start()
  await write(edge, [point(0)], { namespace: 'known' })
  await edge.drained()
  refusedLate = 'known'
  const many = most + 200
  await Promise.all(range(0, many).map((n) => write(edge, [point(n)], { namespace: `x${n}` })))
  await write(edge, [point(1)], { namespace: 'known' })
  await write(edge, [point(2)], { namespace: 'blue' })
  await eventually(() => there.taken('blue').length === 1)
  t.same(there.taken('blue'), [2])
  await eventually(() => waiting(edge) === most + 1)
  t.pass('those that are parked wait, and the one that was there before')
  const letters = readFileSync(join(dir, 'dead-letters', 'forward-upstream.jsonl'), 'utf8')
    .trim()
    .split('\n')
  t.equal(letters.length, many - most)
  t.match(JSON.parse(letters[0]), { topic: `x${most}`, code: 'NOT_FOUND' })
  await edge.close()
  t.ok(readFileSync(placesFile).length < 200 * most)
})

t.test('random histories: each point arrives as it was written, in the order of its namespace, none is lost, none gets into another', async (t) => {
  const first = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
  const seeds = Number(process.env.SVC_SEEDS ?? 6)
  t.comment(`seeds from ${first} on`)
  const there = await node(t)
  for (let seed = first; seed < first + seeds; seed++) {
    const problem = await history(t, there, seed)
    if (problem !== undefined) t.fail(`seed ${seed}: ${problem}`)
  }
})

const CODES: ErrorCode[] = ['NOT_FOUND', 'FORBIDDEN', 'RATE_LIMITED']
const OF_ALL: ErrorCode[] = ['OVERLOADED', 'STORAGE_FULL', 'IO_ERROR']

async function history(t: Test, there: Node, seed: number): Promise<string | undefined> {
  const random = seeded(seed)
  const below = (most: number) => Math.floor(random() * most)
  const names = range(0, 1 + below(8)).map((n) => `s${seed}-${n}`)
  const { start, dir, placesFile } = edgeTo(t, there, {
    batch_points: 1 + below(30),
    batch_bytes: 1024 << below(6),
    file_size: 65_536,
    max_pause_secs: 1 + below(5),
  })
  /** By namespace: the numbers of points that were acknowledged, and those of a type that the upstream refuses. */
  const good = new Map<string, number[]>(names.map((name) => [name, []]))
  const bad = new Set<string>()
  let n = 0
  for (const name of names) {
    await write(there.storage, [{ measurement: 'cpu', time: NOW - 1n, fields: { bad: str('') } }], { namespace: name })
  }
  there.requests.length = 0
  there.refusals.clear()
  const lives = 2 + below(3)
  for (let life = 0; life < lives; life++) {
    const edge = await start()
    let older: string | undefined
    for (let step = 0; step < 60; step++) {
      const name = names[below(names.length)]
      const what = random()
      if (what < 0.12) there.refusals.set(name, CODES[below(CODES.length)])
      else if (what < 0.2) there.refusals.delete(name)
      else if (what < 0.22) there.refusals.set('', OF_ALL[below(OF_ALL.length)])
      else if (what < 0.3) there.refusals.delete('')
      else if (what < 0.4) await new Promise((resolve) => setTimeout(resolve, below(8)))
      else {
        const points = Array.from({ length: 1 + below(40) }, () => {
          const wrong = random() < 0.02
          return point(++n, wrong ? { bad: f64(n) } : { v: i64(BigInt(n)), text: str(name.padEnd(below(300), '.')) })
        })
        const { rejections } = await write(edge, points, { namespace: name })
        // The edge may know by now what the upstream has said.
        const refused = new Set(rejections.map(({ position }) => position))
        for (const [i, { fields, time }] of points.entries()) {
          if (refused.has(i)) continue
          if ('bad' in fields) bad.add(`${name} ${time}`)
          else (good.get(name) as number[]).push(Number(time - NOW))
        }
      }
      if (random() < 0.1) older = readPlaces(placesFile) ?? older
    }
    if (life === lives - 1) {
      there.refusals.clear()
      await edge.drained()
      await eventually(() => edge.connectors().length === 1)
    }
    await edge.close()
    // A crash: what was noted last is older than what was sent.
    if (life < lives - 1 && older !== undefined && random() < 0.5) writeFileSync(placesFile, older)
  }
  for (const name of names) {
    const expected = good.get(name) as number[]
    const arrived = new Set<number>()
    let next = 0
    for (const number of there.taken(name)) {
      if (bad.has(`${name} ${NOW + BigInt(number)}`) || arrived.has(number)) continue
      if (number !== expected[next]) return `${name}: ${number} arrived in place of ${expected[next]}`
      arrived.add(number)
      next++
    }
    if (next < expected.length) return `${name}: ${expected.length - next} of ${expected.length} are lost, the first is ${expected[next]}`
    const texts = (await there.stored(name)).filter((line) => !line.includes('bad='))
    if (texts.length !== expected.length) return `${name}: ${texts.length} stored, ${expected.length} written`
    const wrong = texts.find((line) => !line.includes(`text=string:"${name}`) && !line.includes(name))
    if (wrong !== undefined) return `${name} has ${wrong}`
  }
  const letters =
    readPlaces(join(dir, 'dead-letters', 'forward-upstream.jsonl'))
      ?.trim()
      .split('\n') ?? []
  const aside = new Set(
    letters.map((line) => {
      const { topic, body } = JSON.parse(line)
      return `${topic} ${JSON.parse(Buffer.from(body, 'base64').toString()).timestamp}`
    }),
  )
  const differs = [...bad].find((one) => !aside.has(one)) ?? [...aside].find((one) => !bad.has(one))
  return differs === undefined ? undefined : `dead letters: ${differs}`
}

function readPlaces(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
