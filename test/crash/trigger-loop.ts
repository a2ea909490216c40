/**
 * Kills the server while triggers judge what is written, and starts it again: every acknowledged point that a condition holds for has fired once, no point twice, and
 * no signal is kept that is not of a point that was sent.
 *
 *   node test/crash/trigger-loop.ts [kills] [seed]
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, seeded } from 'svcdb/lib/random'
import { ServerProcess } from './server.ts'

const HOSTS = 5
const WRITERS = 3
/** Points of one write. */
const MOST = 30
const READY_MS = 60_000
/** One in so many has a condition hold for it. */
const LIMIT = 50
const TRIGGERS = ["all ON cpu WHEN value >= 50 COOLDOWN INTERVAL '0s'", "one ON cpu WHEN host = 'h1' AND value >= 50 DELIVER log COOLDOWN INTERVAL '0s'"]

export interface TriggerReport {
  kills: number
  acknowledged: number
  signals: number
  /** Points that were not acknowledged, and fired: they were durable. */
  doubtful: number
}

interface Sent {
  host: string
  time: bigint
  value: number
}

const keyOf = (trigger: string, { host, time }: Pick<Sent, 'host' | 'time'>): string => `${trigger} ${host} ${time}`

function expectedOf({ host, value }: Sent): string[] {
  if (value < LIMIT) return []
  return host === 'h1' ? ['all', 'one'] : ['all']
}

export async function triggerLoop({ kills, seed }: { kills: number; seed: number }): Promise<TriggerReport> {
  const random = seeded(seed)
  const folder = await mkdtemp(join(tmpdir(), 'svc-trigger-loop-'))
  const options = {
    folder,
    engine: 'embedded',
    sql: false,
    plugins: ['triggers'],
    database: { warm_up_ms: 0, memtable_flush_threshold: 262_144 },
    sections: { triggers: { signal_store_capacity: 1_000_000 } },
  }
  const acknowledged = new Map<string, Sent>()
  const sent = new Map<string, Sent>()
  let clock = BigInt(Date.now() - 3_000_000) * 1_000_000n
  const points = (): Sent[] =>
    Array.from({ length: 1 + Math.floor(random() * MOST) }, () => {
      clock += 1_000_000n
      return { host: `h${Math.floor(random() * HOSTS)}`, time: clock, value: Math.floor(random() * 100) }
    })
  let server: ServerProcess | undefined
  try {
    for (let kill = 0; kill <= kills; kill++) {
      server = await ServerProcess.spawn(options)
      await server.ready(READY_MS)
      if (kill === 0) for (const trigger of TRIGGERS) await must(server.url, `CREATE TRIGGER ${trigger}`)
      if (kill === kills) break
      // Sometimes at once, while what was written before is judged.
      const until = performance.now() + (random() < 0.2 ? 20 : 100 + random() * 500)
      await Promise.all([
        ...Array.from({ length: WRITERS }, () => write(server as ServerProcess, points, sent, acknowledged, until)),
        killed(server, until, random),
      ])
    }
    const { url } = server as ServerProcess
    const last = await settle(url, points, sent, acknowledged)
    const result = compare(last, sent, acknowledged, seed)
    await (server as ServerProcess).end('SIGTERM')
    return { kills, acknowledged: acknowledged.size, ...result }
  } finally {
    if (server?.running) await server.end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}

/** @param query one statement. @throws Error with the answer when it is refused. */
export async function must(url: string, query: string): Promise<void> {
  const answer = await fetch(`${url}/api/v1/triggers`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) })
  if (answer.status !== 200) throw new Error(`${query}: ${await answer.text()}`)
}

async function killed(server: ServerProcess, until: number, random: Random): Promise<void> {
  await sleep(Math.max(0, until - performance.now()) * (0.5 + random() / 2))
  await server.end('SIGKILL')
}

async function send(url: string, batch: readonly Sent[], sent: Map<string, Sent>, acknowledged: Map<string, Sent>): Promise<boolean> {
  for (const point of batch) sent.set(`${point.host} ${point.time}`, point)
  const body = batch.map(({ host, time, value }) => `cpu,host=${host} value=${value} ${time}`).join('\n')
  try {
    const answer = await fetch(`${url}/write`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body })
    if (answer.status !== 204) return false
    for (const point of batch) acknowledged.set(`${point.host} ${point.time}`, point)
    return true
  } catch {
    return false // killed: it may be durable
  }
}

async function write(server: ServerProcess, points: () => Sent[], sent: Map<string, Sent>, acknowledged: Map<string, Sent>, until: number): Promise<void> {
  while (performance.now() < until && server.running) if (!(await send(server.url, points(), sent, acknowledged))) return
}

export interface Fired {
  event_id: string
  trigger_name: string
  tags: { host: string }
  /** Digits. */
  timestamp: string
}

/** All that is kept, in the order of firing. */
export async function signalsOf(url: string): Promise<Fired[]> {
  const text = await (await fetch(`${url}/api/v1/signals`)).text()
  return JSON.parse(text.replace(/"timestamp":(\d+)/g, '"timestamp":"$1"')) as Fired[]
}

/** Waits until a point that is written now has fired, behind all others. */
async function settle(url: string, points: () => Sent[], sent: Map<string, Sent>, acknowledged: Map<string, Sent>): Promise<Fired[]> {
  const [point] = points()
  const mark = { ...point, host: 'h0', value: 99 }
  if (!(await send(url, [mark], sent, acknowledged))) throw new Error('cannot write to the last server')
  const until = performance.now() + 30_000
  for (;;) {
    const fired = await signalsOf(url)
    if (fired.at(-1)?.timestamp === String(mark.time)) return fired
    if (performance.now() > until) throw new Error('what was written is not judged after 30 s')
    await sleep(50)
  }
}

function compare(fired: readonly Fired[], sent: Map<string, Sent>, acknowledged: Map<string, Sent>, seed: number): { signals: number; doubtful: number } {
  const keys = new Set<string>()
  let doubtful = 0
  for (const { trigger_name, tags, timestamp } of fired) {
    const point = { host: tags.host, time: BigInt(timestamp) }
    const key = keyOf(trigger_name, point)
    if (keys.has(key)) throw new Error(`seed ${seed}: ${key} fired twice`)
    keys.add(key)
    const known = sent.get(`${point.host} ${point.time}`)
    if (known === undefined || !expectedOf(known).includes(trigger_name)) throw new Error(`seed ${seed}: ${key} fired and should not`)
    if (!acknowledged.has(`${point.host} ${point.time}`)) doubtful++
  }
  for (const point of acknowledged.values())
    for (const trigger of expectedOf(point))
      if (!keys.has(keyOf(trigger, point))) throw new Error(`seed ${seed}: ${keyOf(trigger, point)} was acknowledged and has not fired`)
  return { signals: fired.length, doubtful }
}

if (import.meta.main) {
  const [kills = '20', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  const report = await triggerLoop({ kills: Number(kills), seed: Number(seed) })
  process.stdout.write(
    `seed ${seed}: ${report.kills} kills, ${report.acknowledged} points acknowledged, ${report.signals} signals, ${report.doubtful} of them of points that were not acknowledged\n`,
  )
}
