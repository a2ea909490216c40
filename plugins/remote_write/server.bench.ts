/**
 * Processor time a sample of a server process under remote write, of its main thread and of all others:
 *
 *   [VERSIONS=1,2] [ROUNDS=3] [SERVER_FLAGS=--cpu-prof] node plugins/remote_write/server.bench.ts [samples] [root ...]
 *
 * Requests as an agent sends them that scrapes many hosts: each series has one sample, and comes again a second later. Of several roots
 * (checkouts) rounds take turns, so that they can be compared; the best round of each is printed.
 */

import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compressSync } from 'snappy'
import type { Version } from './content.ts'
import { type WireSeries, writeRequest, writeRequestV2 } from './testing-wire.ts'

const HOSTS = 1000
const SERIES_PER_BODY = 5000
const CONNECTIONS = 4
const ROUNDS = Number(process.env.ROUNDS ?? 3)
const TICKS_PER_SECOND = 100
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((f) => `cpu_usage_${f}`)
const REGIONS = ['us-east-1', 'us-west-1', 'eu-west-1', 'eu-central-1', 'ap-southeast-1', 'sa-east-1']

/** Seconds. */
interface Usage {
  main: number
  others: number
  /** Of the others: by name, and of all threads what the kernel took. */
  named: Map<string, number>
  kernel: number
  wall: number
}

/** Stands for every value of a template: found by its bytes. */
const MARK = 1.2345678901234567e89
const MARKED = Buffer.alloc(8)
MARKED.writeDoubleLE(MARK)

/** A body of `SERIES_PER_BODY` series with a sample each, whose values are MARK, and where those are. */
function template(version: Version, from: number, ms: number): { body: Buffer; places: number[] } {
  const series: WireSeries[] = []
  for (let i = from; i < from + SERIES_PER_BODY; i++) {
    const host = Math.floor(i / FIELDS.length)
    const region = REGIONS[host % REGIONS.length]
    const labels: [string, string][] = [
      ['__name__', FIELDS[i % FIELDS.length]],
      ['arch', host % 2 === 0 ? 'x64' : 'x86'],
      ['datacenter', `${region}${'abc'[host % 3]}`],
      ['hostname', `host_${host}`],
      ['os', 'Ubuntu16.04LTS'],
      ['rack', String(host % 100)],
      ['region', region],
      ['service', String(host % 20)],
      ['service_environment', 'production'],
      ['service_version', String(host % 2)],
      ['team', ['SF', 'NYC', 'LON', 'CHI'][host % 4]],
    ]
    series.push({ labels, samples: [{ ms, value: MARK }] })
  }
  const body = version === 1 ? writeRequest(series) : writeRequestV2(series)
  const places: number[] = []
  for (let at = body.indexOf(MARKED); at >= 0; at = body.indexOf(MARKED, at + 8)) places.push(at)
  if (places.length !== SERIES_PER_BODY) throw new Error(`a template has ${places.length} samples`)
  return { body, places }
}

/** Compressed bodies: all series of all hosts, one sample each, and then the same a second later. */
function* bodies(version: Version, samples: number): Generator<Buffer> {
  const start = Math.floor(Date.now() / 1000) * 1000 - 3_600_000
  const perRound = (HOSTS * FIELDS.length) / SERIES_PER_BODY
  const templates = Array.from({ length: perRound }, (_, part) => template(version, part * SERIES_PER_BODY, start))
  for (let i = 0; i * SERIES_PER_BODY < samples; i++) {
    const { body, places } = templates[i % perRound]
    let rest = start + Math.floor(i / perRound) * 1000
    const time = Buffer.alloc(6)
    for (let byte = 0; byte < 6; byte++) {
      time[byte] = (rest % 128) | (byte < 5 ? 0x80 : 0)
      rest = Math.floor(rest / 128)
    }
    for (const at of places) {
      body.writeDoubleLE(Math.floor(Math.random() * 100), at)
      time.copy(body, at + 9)
    }
    yield compressSync(body)
  }
}

function requestOf(version: Version, body: Buffer): Buffer {
  const type = version === 1 ? 'application/x-protobuf' : 'application/x-protobuf;proto=io.prometheus.write.v2.Request'
  const head = `POST /api/v1/prom/write HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${type}\r\ncontent-encoding: snappy\r\ncontent-length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

/** Sends one request after the other, those that are left of all connections'. */
function sender(port: number, next: () => Buffer | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(port, '127.0.0.1')
    const send = () => {
      const request = next()
      if (request === undefined) return socket.end(resolve)
      socket.write(request)
    }
    socket.on('error', reject)
    socket.on('data', (answer: Buffer) => {
      const status = answer.toString('latin1', 9, 12)
      if (status !== '204') reject(new Error(`answered ${answer.toString('latin1')}`))
      else send()
    })
    socket.on('connect', send)
  })
}

/** Processor time so far in seconds: of the main thread, and of all others. */
function usageOf(pid: number): Usage {
  const usage: Usage = { main: 0, others: 0, named: new Map(), kernel: 0, wall: performance.now() / 1000 }
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const [name, rest] = readFileSync(`/proc/${pid}/task/${task}/stat`, 'latin1').split(' (')[1].split(') ')
    const fields = rest.split(' ')
    const kernel = Number(fields[12]) / TICKS_PER_SECOND
    const seconds = Number(fields[11]) / TICKS_PER_SECOND + kernel
    usage.kernel += kernel
    if (Number(task) === pid) usage.main += seconds
    else {
      usage.others += seconds
      usage.named.set(name, (usage.named.get(name) ?? 0) + seconds)
    }
  }
  return usage
}

async function measure(root: string, requests: readonly Buffer[]): Promise<Usage> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-remote-write-'))
  const config = join(folder, 'svc.toml')
  writeFileSync(config, `plugins = ["remote_write"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\ndata_dir = "${join(folder, 'data')}"\n`)
  const flags = process.env.SERVER_FLAGS?.split(' ') ?? []
  const child = spawn(process.execPath, [...flags, join(root, 'kernel/main.ts'), 'serve', '--config', config], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  try {
    const port = await portOf(child)
    let at = 0
    const send = async (count: number) => {
      const end = at + count
      await Promise.all(Array.from({ length: CONNECTIONS }, () => sender(port, () => (at < end ? requests[at++] : undefined))))
    }
    await send(requests.length >> 3) // series begin, code is compiled
    const pid = child.pid as number
    const before = usageOf(pid)
    const samples = (requests.length - at) * SERIES_PER_BODY
    await send(requests.length - at)
    const after = usageOf(pid)
    const each = (was: number, is: number) => ((is - was) / samples) * 1e9
    return {
      main: each(before.main, after.main),
      others: each(before.others, after.others),
      named: new Map([...after.named].map(([name, seconds]) => [name, each(before.named.get(name) ?? 0, seconds)])),
      kernel: each(before.kernel, after.kernel),
      wall: each(before.wall, after.wall),
    }
  } finally {
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    await gone
    rmSync(folder, { recursive: true, force: true })
  }
}

function portOf(child: ReturnType<typeof spawn>): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      const port = /http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1]
      if (port !== undefined) resolve(Number(port))
    })
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)))
  })
}

const samples = Number(process.argv[2] ?? 2_000_000)
const roots = process.argv.length > 3 ? process.argv.slice(3) : [join(import.meta.dirname, '../..')]
const versions = (process.env.VERSIONS ?? '1,2').split(',').map(Number) as Version[]
for (const version of versions) {
  const requests = Array.from(bodies(version, samples), (body) => requestOf(version, body))
  const best = new Map<string, Usage>()
  for (let round = 0; round < ROUNDS; round++) {
    for (const root of roots) {
      const usage = await measure(root, requests)
      const known = best.get(root)
      if (known === undefined || usage.main + usage.others < known.main + known.others) best.set(root, usage)
    }
  }
  for (const [root, { main, others, named, kernel, wall }] of best) {
    const names = [...named].map(([name, ns]) => `${name} ${ns.toFixed(0)}`).join(', ')
    console.log(
      `version ${version}, ${root}: ${main.toFixed(0)} ns/sample main thread, ${others.toFixed(0)} others (${names}), ${(main + others).toFixed(0)} all (kernel ${kernel.toFixed(0)}); ${wall.toFixed(0)} by the clock`,
    )
  }
}
