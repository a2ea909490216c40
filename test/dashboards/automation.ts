/**
 * What a busy node does by itself: receivers of webhooks that take, fail and are gone, triggers that fire for them, readers of annotations
 * and of changes, a rollup whose source changes.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestNode } from 'svcdb/testkit'
import { EventClient } from '../../plugins/cdc/testing.ts'

/** Points of a round. Each fires for all triggers but the one with a cooldown. */
const POINTS = 20
const DAY = 86_400_000_000_000n

/** Sections of the config: short pauses, short streams, and a store of signals that is soon full. */
export const AUTOMATION = {
  webhooks: {
    signing_secrets: [`whsec_${Buffer.alloc(24, 7).toString('base64')}`],
    allow_private_targets: true,
    retry_initial_secs: 0.1,
    retry_max_secs: 0.5,
    drain_secs: 0,
  },
  triggers: { signal_store_capacity: POINTS },
  cdc: { max_stream_secs: 2 },
  rollups: { interval_ms: 100 },
}

/** The status that is answered, by path. */
const RECEIVERS: Record<string, number> = { '/takes': 204, '/fails': 500, '/gone': 410 }
/** Of another database: who comes back with it is told of a gap. */
const FOREIGN_ID = '0000000000000001-00000000000001-1fffffffffffff'

export interface Automation {
  /** Fires, and returns when the receiver has taken what is its, with streams open. */
  work(): Promise<void>
  stop(): Promise<void>
}

/** @param headers of streams, which are read through a socket. */
export async function startAutomation(node: TestNode, headers: Record<string, string>): Promise<Automation> {
  const got = new Map<string, number>()
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    request.resume().on('end', () => {
      got.set(path, (got.get(path) ?? 0) + 1)
      response.writeHead(RECEIVERS[path] ?? 404).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const streams: EventClient[] = []
  let written = 0
  let lastId = ''

  const post = async (url: string, payload: object | string, type: string): Promise<void> => {
    const answer = await node.inject({ method: 'POST', url, payload, headers: { 'content-type': type } })
    if (answer.statusCode >= 300) throw new Error(`${url}: ${answer.body}`)
  }
  const trigger = (name: string, rest: string) =>
    post('/api/v1/triggers', { query: `CREATE TRIGGER ${name} ON alarms WHEN value > 0 ${rest}` }, 'application/json')
  const open = async (path: string, more: Record<string, string> = {}): Promise<EventClient> => {
    const stream = await EventClient.open(node.url + path, { ...headers, ...more })
    streams.push(stream)
    return stream
  }

  for (const path of Object.keys(RECEIVERS)) await trigger(path.slice(1), `DELIVER webhook('http://127.0.0.1:${port}${path}') COOLDOWN INTERVAL '0s'`)
  await trigger('logged', "DELIVER log COOLDOWN INTERVAL '0s'")
  await trigger('kept', "COOLDOWN INTERVAL '1h'")
  await trigger('off', '')
  await post('/api/v1/triggers', { query: 'ALTER TRIGGER off DISABLE' }, 'application/json')
  await open('/api/v1/annotations/stream')
  const rollup = { name: 'hourly', source_measurement: 'visits', target_measurement: 'visits_1h', every: '1h', aggregations: ['sum'] }
  await post('/api/v1/rollups', rollup, 'application/json')
  const settled = async (): Promise<void> => {
    for (let i = 0; i < 400; i++) {
      const [{ materialised_until: until, pending_repairs: ranges }] = (await node.inject('/api/v1/rollups')).json().items
      if (until > 0 && ranges.length === 0) return
      await sleep(25)
    }
    throw new Error(`a rollup is behind: ${(await node.inject('/api/v1/rollups')).body}`)
  }

  return {
    async work() {
      const now = BigInt(Date.now()) * 1_000_000n
      // Of two hosts, so that some have not fired yet, and none lies where another did.
      const lines = Array.from({ length: POINTS }, (_, i) => `alarms,host=h${i % 2} value=${i + 1} ${now + BigInt(i)}`)
      await post('/write', lines.join('\n'), 'text/plain')
      written += POINTS
      // Of a month ago: the rollup is past it, and has to compute it again.
      await post('/write', `visits value=1 ${now}`, 'text/plain')
      await settled()
      await post('/write?backfill=true', lines.map((_, i) => `visits value=${written} ${now - 30n * DAY + BigInt(i)}`).join('\n'), 'text/plain')
      await settled()
      for (let i = 0; i < 2400 && ((got.get('/takes') ?? 0) < written || !got.has('/gone')); i++) await sleep(25)
      if ((got.get('/takes') ?? 0) < written || !got.has('/gone')) throw new Error(`of ${written} signals came ${JSON.stringify([...got])}`)
      const foreign = await open('/api/v1/cdc/stream?measurement=alarms', { 'last-event-id': FOREIGN_ID })
      const [gap] = await foreign.until(1)
      if (gap?.event !== 'gap') throw new Error(`a reader of another database is told ${JSON.stringify(gap)}`)
      await foreign.close()
      // Goes on behind the gap of the first round, and later where it was. The server ends it, see cdc.max_stream_secs.
      const reader = await open('/api/v1/cdc/stream?measurement=alarms', { 'last-event-id': lastId || gap.id })
      const told = await reader.until(POINTS)
      if (told.length < POINTS) throw new Error(`a reader behind ${lastId || gap.id} is told of ${told.length} changes`)
      lastId = reader.lastId
    },
    async stop() {
      for (const stream of streams) await stream.close()
      server.closeAllConnections()
      server.close()
    },
  }
}
