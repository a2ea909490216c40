/**
 * Kills the server while everything that happens by itself is at work: triggers, their webhooks, rollups on two tiers, and two readers of the change stream that come back
 * with Last-Event-ID. In the end, and now and then between:
 * - the readers have each durable point once, each acknowledged one among them, and what came again was the same under the same ids;
 * - each durable point that a condition holds for has fired once, rows of a rollup's target too, and nothing else has;
 * - the targets are what a model computes from the raw points (rollup-model.ts);
 * - the receiver, which is slow or fails at times, has each signal that is for it.
 *
 *   node test/crash/automation.ts [kills] [seed]
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, seeded } from 'svcdb/lib/random'
import { MoodyReceiver, SECRET } from './moody-receiver.ts'
import { type Ask, asks, HOUR, modelDatabase, modelSection, RollupWorld, type Row, read, T0 } from './rollup-model.ts'
import { failure, ServerProcess } from './server.ts'
import { StreamReader } from './stream-reader.ts'
import { type Fired, must, signalsOf } from './trigger-loop.ts'

const WRITERS = 3
/** Points of one write: so few that a write which comes late is within the live window, and within the times that a cooldown remembers. */
const MOST = 10
/** Of some of those of the past: several chunks of a stream. */
const MOST_LATE = 600
const MINUTE = HOUR / 60n
const HOSTS = ['a', 'b', 'c']
/** Points of one host that is backfilled only: fewer than the stretches of time that a trigger remembers for a series (32). */
const PAST_POINTS = 15
const PATIENCE_MS = 120_000
const READY_MS = 60_000

const HOOKED = 'hooked'
const ONE = 'one'
const HOURLY = 'hourly'

export interface AutomationReport {
  kills: number
  acknowledged: number
  /** Points that are there and were not acknowledged. */
  doubtful: number
  signals: number
  /** Events of both streams, and those that were sent again. */
  events: number
  repeated: number
  connections: number
  deliveries: number
  attempts: number
  buckets: number
}

interface Sent {
  host: string
  time: bigint
  usage: number
}

const keyOf = ({ host, time }: Pick<Sent, 'host' | 'time'>): string => `${host} ${time}`

/** What writers send. */
class Work {
  readonly sent = new Map<string, Sent>()
  readonly acknowledged = new Set<string>()
  private readonly random: Random
  private clock = T0
  private past = 0

  constructor(random: Random) {
    this.random = random
  }

  async write(server: ServerProcess, until: number): Promise<void> {
    while (performance.now() < until && server.running) {
      if (!(await this.send(server, this.random() < 0.3))) return
      await sleep(this.random() * 15)
    }
  }

  /** @returns whether it was acknowledged. @throws Error when it was refused. */
  async send(server: ServerProcess, backfill: boolean): Promise<boolean> {
    const most = backfill && this.random() < 0.1 ? MOST_LATE : MOST
    const points = Array.from({ length: 1 + Math.floor(this.random() * most) }, () => (backfill ? this.late() : this.next()))
    for (const point of points) this.sent.set(keyOf(point), point)
    const body = points.map(({ host, time, usage }) => `cpu,host=${host} usage=${usage} ${time}`).join('\n')
    let answer: Response
    try {
      answer = await fetch(`${server.url}/write?backfill=${backfill}`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body })
      if (answer.status !== 204) throw new Error(`a write was answered ${answer.status}: ${await answer.text()}`)
    } catch (error) {
      if ((error as Error).message.startsWith('a write')) throw error
      return false // killed: it may be durable
    }
    for (const point of points) this.acknowledged.add(keyOf(point))
    return true
  }

  private next(): Sent {
    this.clock += MINUTE
    return { host: HOSTS[Math.floor(this.random() * HOSTS.length)], time: this.clock, usage: Math.floor(this.random() * 1000) }
  }

  /** No two have one time. */
  private late(): Sent {
    this.past++
    const back = BigInt(Math.floor(this.random() * Number((this.clock - T0) / MINUTE + 1440n)))
    return { host: `p${Math.floor(this.past / PAST_POINTS)}`, time: this.clock - back * MINUTE - BigInt(this.past), usage: Math.floor(this.random() * 1000) }
  }
}

export async function automation(kills: number, seed: number, log: (line: string) => void): Promise<AutomationReport> {
  const random = seeded(seed)
  const folder = await mkdtemp(join(tmpdir(), 'svc-automation-'))
  const receiver = new MoodyReceiver(random)
  const hook = await receiver.listen()
  const work = new Work(random)
  const world = new RollupWorld(seed)
  const readers = [new StreamReader('?measurement=cpu', random), new StreamReader('', random)]
  let server: ServerProcess | undefined
  const ask = asks(() => (server as ServerProcess).url)
  try {
    for (let kill = 0; ; kill++) {
      server = await ServerProcess.spawn(optionsOf(folder))
      await server.ready(READY_MS)
      const over = new AbortController()
      const following = Promise.all(readers.map((reader) => reader.follow((server as ServerProcess).url, over.signal)))
      following.catch(() => {}) // seen below
      if (kill === 0) await begin(server.url, hook, world, ask, readers)
      const last = kill === kills
      if (last || random() < 0.15) {
        receiver.calm = last
        const found = await settled({ server, ask, work, world, readers, receiver, last })
        log(`life ${kill}: ${JSON.stringify(found)}`)
        if (last) {
          over.abort()
          await following
          await server.end('SIGTERM')
          return { kills, ...found }
        }
      }
      // Sometimes at once, while what was written before is being dealt with.
      const until = performance.now() + (random() < 0.2 ? 20 : 100 + random() * 600)
      await Promise.all([...Array.from({ length: WRITERS }, () => work.write(server as ServerProcess, until)), killed(server, until, random)])
      await following
      receiver.check()
    }
  } catch (error) {
    throw failure(`seed ${seed}`, error, server)
  } finally {
    if (server?.running) await server.end('SIGKILL')
    await receiver.close()
    await rm(folder, { recursive: true, force: true })
  }
}

const optionsOf = (folder: string) => ({
  folder,
  engine: 'embedded',
  sql: true,
  plugins: ['cdc', 'webhooks', 'triggers', 'rollups'],
  // Little in memory: most of what a reader missed is read from the log.
  database: { ...modelDatabase, warm_up_ms: 0, maintenance_interval_secs: 1, memtable_flush_threshold: 262_144, cdc_capacity: 256 },
  sections: {
    triggers: { signal_store_capacity: 1_000_000 },
    rollups: modelSection,
    cdc: { max_stream_secs: 86_400 },
    webhooks: {
      ...{ signing_secrets: [SECRET], allow_private_targets: true, timeout_secs: 1, queue_size: 100_000 },
      ...{ retry_initial_secs: 0.05, retry_max_secs: 0.2, endpoint_in_flight: 8 },
    },
  },
})

async function begin(url: string, hook: string, world: RollupWorld, ask: Ask, readers: readonly StreamReader[]): Promise<void> {
  await Promise.all(readers.map((reader) => reader.begun()))
  await world.begin(ask)
  await must(url, `CREATE TRIGGER ${HOOKED} ON cpu WHEN usage >= 800 DELIVER webhook('${hook}') COOLDOWN INTERVAL '0s'`)
  await must(url, `CREATE TRIGGER ${ONE} ON cpu WHEN host = 'a' AND usage >= 500 COOLDOWN INTERVAL '0s'`)
  await must(url, `CREATE TRIGGER ${HOURLY} ON cpu_1h WHEN usage_count >= 1 COOLDOWN INTERVAL '0s'`)
}

async function killed(server: ServerProcess, until: number, random: Random): Promise<void> {
  await sleep(Math.max(0, until - performance.now()) * (0.5 + random() / 2))
  await server.end('SIGKILL')
}

interface State {
  server: ServerProcess
  ask: Ask
  work: Work
  world: RollupWorld
  readers: readonly StreamReader[]
  receiver: MoodyReceiver
  /** Else deliveries may still be under way. */
  last: boolean
}

/** Waits until all that was written has been dealt with. @throws Error with what is missing after a while, and at once with what should not be there. */
async function settled({ server, ask, work, world, readers, receiver, last }: State): Promise<Omit<AutomationReport, 'kills'>> {
  if (!(await work.send(server, false))) throw new Error('the server takes no write')
  const raw = await read(ask, 'cpu')
  const durable = new Set(raw.map(({ tags, time }) => keyOf({ host: tags.host, time })))
  for (const key of work.acknowledged) if (!durable.has(key)) throw new Error(`${key} was acknowledged and is not there`)
  for (const row of raw) {
    const sent = work.sent.get(keyOf({ host: row.tags.host, time: row.time }))
    if (sent?.usage !== row.values.usage) throw new Error(`${row.tags.host} ${row.time} is there with ${row.values.usage}, and was sent with ${sent?.usage}`)
    world.take(row)
  }
  await world.settled(ask)
  const hourly = await read(ask, 'cpu_1h')
  const wanted = new Set([...raw.flatMap(expectedOf), ...hourly.map((row) => signalKey(HOURLY, row.tags.host, row.time))])
  let signals: Fired[] = []
  await patiently(async () => {
    signals = await signalsOf(server.url)
    return differenceOf(signals, wanted)
  })
  for (const reader of readers) await patiently(async () => missing(reader, durable, work.sent))
  const hooked = new Set(signals.filter(({ trigger_name }) => trigger_name === HOOKED).map(({ event_id }) => event_id))
  await patiently(async () => {
    receiver.check()
    for (const id of receiver.taken.keys()) if (!hooked.has(id)) throw new Error(`the receiver has ${id}, which is no signal`)
    return last && receiver.taken.size < hooked.size ? `the receiver has ${receiver.taken.size} of ${hooked.size} signals` : undefined
  })
  const sum = (of: (reader: StreamReader) => number): number => readers.reduce((all, reader) => all + of(reader), 0)
  return {
    acknowledged: work.acknowledged.size,
    doubtful: durable.size - work.acknowledged.size,
    signals: signals.length,
    events: sum(({ events }) => events.length),
    repeated: sum(({ repeated }) => repeated),
    connections: sum(({ connections }) => connections),
    deliveries: receiver.taken.size,
    attempts: receiver.attempts,
    buckets: hourly.length,
  }
}

async function patiently(problemOf: () => Promise<string | undefined>): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(50)) {
    const problem = await problemOf()
    if (problem === undefined) return
    if (Date.now() > end) throw new Error(`${problem}, after ${PATIENCE_MS / 1000} s`)
  }
}

const signalKey = (trigger: string, host: string, time: bigint | string): string => `${trigger} ${host} ${time}`

function expectedOf({ tags: { host }, time, values: { usage } }: Row): string[] {
  return [...(usage >= 800 ? [signalKey(HOOKED, host, time)] : []), ...(host === 'a' && usage >= 500 ? [signalKey(ONE, host, time)] : [])]
}

/** @returns what is missing yet. */
function differenceOf(signals: readonly Fired[], wanted: ReadonlySet<string>): string | undefined {
  const fired = new Set<string>()
  for (const { trigger_name, tags, timestamp } of signals) {
    const key = signalKey(trigger_name, tags.host, timestamp)
    if (fired.has(key)) throw new Error(`${key} has fired twice`)
    if (!wanted.has(key)) throw new Error(`${key} has fired and should not`)
    fired.add(key)
  }
  const first = [...wanted].find((key) => !fired.has(key))
  return first === undefined ? undefined : `${first} has not fired, one of ${wanted.size - fired.size}`
}

function missing(reader: StreamReader, durable: ReadonlySet<string>, sent: ReadonlyMap<string, Sent>): string | undefined {
  reader.check()
  const told = new Set<string>()
  for (const { event, data } of reader.events) {
    if (event !== 'point_written' || !data.startsWith('{"PointWritten":{"measurement":"cpu",')) continue
    const { PointWritten: point } = JSON.parse(data.replace(/"timestamp":(\d+)/, '"timestamp":"$1"'))
    const key = keyOf({ host: point.tags.host, time: BigInt(point.timestamp) })
    if (told.has(key)) throw new Error(`the stream has ${key} under two ids`)
    if (!durable.has(key)) throw new Error(`the stream has ${key}, which is not there`)
    if (sent.get(key)?.usage !== point.fields.usage.F64) throw new Error(`the stream has ${data}, which was sent as ${sent.get(key)?.usage}`)
    told.add(key)
  }
  const first = [...durable].find((key) => !told.has(key))
  return first === undefined ? undefined : `the stream does not have ${first}, one of ${durable.size - told.size}`
}

if (import.meta.main) {
  const [kills = '20', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  process.stdout.write(`seed ${seed}\n`)
  const report = await automation(Number(kills), Number(seed), (line) => process.stdout.write(`${line}\n`))
  process.stdout.write(
    `${report.kills} kills, ${report.acknowledged} points acknowledged, ${report.doubtful} more durable; ${report.signals} signals, ${report.deliveries} delivered in ${report.attempts} attempts; ${report.buckets} buckets of an hour; ${report.events} events over ${report.connections} connections, ${report.repeated} sent again: none missed, none double\n`,
  )
}
