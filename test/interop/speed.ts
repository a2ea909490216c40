/** How fast clients get through the listeners; no test. `node test/interop/speed.ts flight rows=3000000` or `… otlp points=3000000`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Listeners, startListeners } from './listeners.ts'
import { POINTS_PER_HOST, request } from './otlp-load.ts'

const TICKS_PER_SECOND = 100
const STEP_NS = 10_000_000_000n
const CACHE = process.env.SVC_INTEROP_CACHE ?? join(process.env.HOME ?? '', '.cache/svc-interop')

/** Seconds of processor that a process has used. */
function processor(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

async function flight({ flight, pid }: Listeners, words: string[]): Promise<void> {
  if (!existsSync(join(CACHE, 'python/pyarrow.installed'))) throw new Error('there is no Python with pyarrow; test/interop/run speed installs it')
  const client = spawn(join(CACHE, 'python/bin/python'), [join(import.meta.dirname, 'clients/flight_speed.py'), flight, String(pid), ...words], {
    stdio: 'inherit',
  })
  await once(client, 'close')
}

function post(url: string, agent: Agent, body: Uint8Array, gzip: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/x-protobuf', 'content-length': body.length, ...(gzip ? { 'content-encoding': 'gzip' } : {}) }
    const call = httpRequest(`${url}/v1/metrics`, { method: 'POST', agent, headers }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (fragment) => (text += fragment))
      answer.on('end', () => (answer.statusCode === 204 ? resolve() : reject(new Error(`${answer.statusCode} ${text}`))))
    })
    call.on('error', reject).end(body)
  })
}

async function otlp({ url, pid }: Listeners, words: string[]): Promise<void> {
  const given = Object.fromEntries(words.map((word) => word.split('=')))
  const [points, hosts, connections, gzip] = [given.points ?? 3_000_000, given.hosts ?? 100, given.connections ?? 4, given.gzip ?? 0].map(Number)
  let seed = 1
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647
  const size = hosts * POINTS_PER_HOST
  const count = Math.ceil(points / size)
  const end = (BigInt(Date.now()) * 1_000_000n) / STEP_NS
  const bodies = Array.from({ length: count }, (_, index) => {
    const body = request(hosts, (end - BigInt(count - index)) * STEP_NS, random)
    return gzip === 1 ? gzipSync(body, { level: 1 }) : body
  })
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const warm = bodies.splice(0, Math.min(10, count >> 1))
  for (const body of warm) await post(url, agent, body, gzip === 1)
  const bytes = bodies.reduce((sum, { length }) => sum + length, 0)
  const [usedBefore, begun] = [processor(pid), performance.now()]
  let next = 0
  const send = async (): Promise<void> => {
    while (next < bodies.length) await post(url, agent, bodies[next++], gzip === 1)
  }
  await Promise.all(Array.from({ length: connections }, send))
  const seconds = (performance.now() - begun) / 1000
  const sent = bodies.length * size
  const rate = (number: number): string => Math.round(number / seconds).toLocaleString('en')
  const used = ((processor(pid) - usedBefore) / sent) * 1e6
  console.log(
    `OTLP, ${size} points a request, ${connections} connections${gzip === 1 ? ', gzip' : ''}: ${rate(sent)} points/s, ${rate(bytes / 1e6)} MB/s, ${used.toFixed(2)} µs of processor a point`,
  )
  agent.destroy()
}

const LOADS = { flight: { protocol: 'flight_sql', run: flight }, otlp: { protocol: 'otlp', run: otlp } } as const
const [what = '', ...words] = process.argv.slice(2)
const load = LOADS[what as keyof typeof LOADS]
if (load === undefined) throw new Error(`say what to measure: ${Object.keys(LOADS).join(', ')}`)
// Nothing of the answers may be cut.
const listeners = await startListeners([load.protocol], { server: 'sql_max_rows = 100000000\nsql_query_timeout_secs = 300', logLevel: 'info' })
try {
  await load.run(listeners, words)
} finally {
  await listeners.stop()
}
