/**
 * What credentials cost a writer: the same line protocol to two servers in turn, one open, one with an API key (cached after its first use) and Cedar.
 *
 *   node test/security/ingest.bench.ts [rounds=10]
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RunningServer, runServer } from '../support/server.ts'

const ROUNDS = Number(/^rounds=(\d+)$/.exec(process.argv[2] ?? '')?.[1] ?? 10)
const HOSTS = 1000
const BATCH_ROWS = 5000
const BATCHES = 40
const CONNECTIONS = 2
const TAGS = [
  'region=eu-central-1',
  'datacenter=eu-central-1a',
  'rack=6',
  'os=Ubuntu15.10',
  'arch=x86',
  'team=SF',
  'service=19',
  'service_version=1',
  'service_environment=test',
]
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice']

const key = `svc_${randomBytes(32).toString('base64url')}`
const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'))
await writeFile(join(folder, 'all.cedar'), 'permit (principal in Svc::Role::"writer", action == Svc::Action::"Write", resource);\n')
const sections = {
  open: 'plugins = ["line_protocol"]\n',
  secured: `plugins = ["line_protocol", "api_keys", "cedar"]\n[[auth.api_keys]]\nname = "w"\nkey = "${key}"\nroles = ["writer"]\n[authorization]\npolicy_dir = ${JSON.stringify(folder)}\n`,
}

let second = 1_700_000_000
/** One round's bodies: each host once a second. */
function bodies(): Buffer[] {
  return Array.from({ length: BATCHES }, () => {
    const lines: string[] = []
    for (let row = 0; row < BATCH_ROWS; row++) {
      if (row % HOSTS === 0) second++
      const values = FIELDS.map((name, i) => `usage_${name}=${(row * 7 + i * 13 + second) % 100}`).join(',')
      lines.push(`cpu,hostname=host_${row % HOSTS},${TAGS.join(',')} ${values} ${second}000000000`)
    }
    return Buffer.from(lines.join('\n'))
  })
}

/** @returns rows a second. */
async function send(server: RunningServer, agent: Agent, all: readonly Buffer[]): Promise<number> {
  const queue = [...all]
  const began = performance.now()
  const one = (body: Buffer) =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}`, 'content-length': body.length }
      const sent = request(`${server.url}/write`, { method: 'POST', agent, headers }, (answer) => {
        answer.resume()
        answer.on('end', () => (answer.statusCode === 204 ? resolve() : reject(new Error(`status ${answer.statusCode}`))))
      })
      sent.on('error', reject)
      sent.end(body)
    })
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      for (let body = queue.pop(); body !== undefined; body = queue.pop()) await one(body)
    }),
  )
  return (all.length * BATCH_ROWS * 1000) / (performance.now() - began)
}

/** Processor time of a process so far, µs; 0 where there is no /proc. */
async function processorTime(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const [utime = 0, stime = 0] = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return (utime + stime) * 10_000
}

const servers = new Map<string, { server: RunningServer; agent: Agent; rates: number[]; processor: number }>()
for (const [name, toml] of Object.entries(sections)) {
  const file = join(folder, `${name}.toml`)
  await writeFile(file, toml)
  servers.set(name, { server: await runServer(file), agent: new Agent({ keepAlive: true, maxSockets: CONNECTIONS }), rates: [], processor: 0 })
}
try {
  for (let round = -2; round < ROUNDS; round++) {
    const all = bodies()
    // Whoever comes second finds a warmer machine: the order changes each round.
    const turn = [...servers.values()]
    if (round % 2 !== 0) turn.reverse()
    for (const measured of turn) {
      const { server, agent, rates } = measured
      const rate = await send(server, agent, all)
      // What the first rounds were spent on is not counted, what flushes cost between the rounds is.
      if (round >= 0) rates.push(rate)
      else measured.processor = await processorTime(server.pid)
    }
  }
  const [open, secured] = ['open', 'secured'].map((name) => servers.get(name)?.rates ?? [])
  const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
  const ratio = median(secured.map((rate, i) => rate / open[i]))
  process.stdout.write(`rows/s, median of ${ROUNDS} rounds: open ${Math.round(median(open))}, key and Cedar ${Math.round(median(secured))}\n`)
  for (const [name, { server, processor }] of servers) {
    const perRow = ((await processorTime(server.pid)) - processor) / (ROUNDS * BATCHES * BATCH_ROWS)
    process.stdout.write(`processor a row, ${name}: ${perRow.toFixed(3)} µs\n`)
  }
  process.stdout.write(`median of the rounds' ratios: ${ratio.toFixed(3)}\n`)
} finally {
  for (const { server, agent } of servers.values()) {
    agent.destroy()
    await server.stop()
  }
  await rm(folder, { recursive: true, force: true })
}
