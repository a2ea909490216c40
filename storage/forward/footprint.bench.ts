/**
 * What an edge takes at 10,000 points/s of three fields by HTTP, beside the full node that it sends to: resident memory by kind, processor time, and how long its start takes.
 *
 *   node storage/forward/footprint.bench.ts [seconds] [points of a write] [variant ...]
 *
 * A variant is a line of settings for the edge's process: `NAME=value` of its environment, `--option` of node, `usual` for that footprint, and `slow` for a disk whose every
 * call takes SLOW_MS. Default: without any, and usual. Variants take turns.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunningServer, runServer } from '../../test/support/server.ts'

const RATE = 10_000
const SERIES = 500
const SECS = Number(process.argv[2] ?? 20)
const WRITE = Number(process.argv[3] ?? 1000)
const VARIANTS = process.argv.length > 4 ? process.argv.slice(4) : ['usual', '']
/** Of the load, until memory is looked at. */
const FIRST_SECS = SECS / 4
const MIB = 2 ** 20

/** Bytes of resident memory, by what it is for. */
interface Resident {
  all: number
  /** The program of Node.js, which other processes of it share but for its data. */
  code: number
  constants: number
  data: number
  /** Other files. */
  files: number
  /** Of malloc: the heap that the program begins with, and arenas of other threads. */
  heap: number
  arenas: number
  /** All else: V8's heap and code, large buffers, stacks. */
  anonymous: number
}

function residentOf(pid: number): Resident {
  const found: Resident = { all: 0, code: 0, constants: 0, data: 0, files: 0, heap: 0, arenas: 0, anonymous: 0 }
  const mappings: { from: number; to: number; mode: string; name: string; bytes: number }[] = []
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)$/.exec(line)
    if (range !== null) mappings.push({ from: Number.parseInt(range[1], 16), to: Number.parseInt(range[2], 16), mode: range[3], name: range[4], bytes: 0 })
    const rss = /^Rss:\s+(\d+) kB$/.exec(line)?.[1]
    if (rss !== undefined) (mappings.at(-1) as { bytes: number }).bytes = Number(rss) * 1024
  }
  for (const [i, { from, to, mode, name, bytes }] of mappings.entries()) {
    found.all += bytes
    if (name.endsWith('/node')) found[mode.includes('x') ? 'code' : mode.includes('w') ? 'data' : 'constants'] += bytes
    else if (name.startsWith('/')) found.files += bytes
    else if (name === '[heap]') found.heap += bytes
    // An arena of glibc: 64 MiB of addresses, of which the first part is in use.
    else if (from % (64 * MIB) === 0 && (mappings[i + 1]?.to ?? 0) - from === 64 * MIB && mappings[i + 1].from === to) found.arenas += bytes
    else found.anonymous += bytes
  }
  return found
}

/** Of all its threads that are left, in milliseconds. */
function processorMs(pid: number): number {
  const [, rest] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const mib = (bytes: number): string => (bytes / MIB).toFixed(1)
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

async function load(url: string, until: number): Promise<{ sent: number; slowest: number }> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const began = Date.now()
  let [sent, slowest] = [0, 0]
  const under = new Set<Promise<void>>()
  while (Date.now() < until) {
    const due = began + (sent / RATE) * 1000
    if (due > Date.now()) await sleep(due - Date.now())
    const from = sent
    const now = BigInt(Date.now()) * 1_000_000n
    const lines = Array.from({ length: WRITE }, (_, i) => {
      const n = from + i
      return `machine,id=m${n % SERIES},site=s${n % 7} temperature=${(n % 1000) / 10},pressure=${n % 77},ok=${n % 2 === 0} ${now + BigInt(i)}`
    }).join('\n')
    sent += WRITE
    const at = performance.now()
    const one = new Promise<void>((resolve, reject) => {
      request(`${url}/write`, { method: 'POST', agent }, (answer) => {
        answer.resume().on('end', () => {
          slowest = Math.max(slowest, performance.now() - at)
          if (answer.statusCode === 204) resolve()
          else reject(new Error(`the edge answers ${answer.statusCode}`))
        })
      })
        .on('error', reject)
        .end(lines)
    })
    under.add(one)
    void one.finally(() => under.delete(one))
    if (under.size >= 4) await Promise.race(under)
  }
  await Promise.all(under)
  agent.destroy()
  return { sent, slowest }
}

async function measure(variant: string, central: RunningServer, folder: string): Promise<void> {
  const words = variant.split(' ').filter((word) => word !== '')
  const env = Object.fromEntries(
    words.filter((word) => /^[A-Z_]+=/.test(word)).map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]),
  )
  const nodeArgs = words.filter((word) => word.startsWith('-'))
  const config = join(folder, 'edge.toml')
  const engine = words.includes('slow') ? join(import.meta.dirname, 'testing-slow-disk.ts') : 'forward'
  const port = /grpc.*port=(\d+)|port=(\d+).*grpc/.exec(central.output())?.slice(1).find(Boolean)
  writeFileSync(
    config,
    `plugins = ["mqtt", "line_protocol"]\n[server]\nfootprint = "${words.includes('usual') ? 'usual' : 'small'}"\n[database]\nengine = "${engine}"\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:${port}"\n`,
  )
  const start = (): Promise<RunningServer> => runServer(config, { env: { ...env, HOME: process.env.HOME ?? '' }, nodeArgs })
  // The first start of each kind compiles, and leaves the code for the next.
  await (await start()).stop()
  const edge = await start()
  const startMs = processorMs(edge.pid)
  const readyMs = edge.readyMs
  try {
    const before = processorMs(edge.pid)
    const began = performance.now()
    const loading = load(edge.url, Date.now() + SECS * 1000)
    const seen: Resident[] = []
    await sleep(FIRST_SECS * 1000)
    for (; performance.now() - began < SECS * 1000; await sleep(500)) seen.push(residentOf(edge.pid))
    const { sent, slowest } = await loading
    const share = (processorMs(edge.pid) - before) / (performance.now() - began)
    const kinds = (['code', 'constants', 'data', 'files', 'heap', 'arenas', 'anonymous'] as const).map(
      (kind) => `${kind} ${mib(mean(seen.map((one) => one[kind])))}`,
    )
    const threads = readdirSync(`/proc/${edge.pid}/task`).length
    console.log(
      `${variant || 'as it is'}: ready after ${Math.round(readyMs)} ms (${startMs} of processor); ${sent} points, ${(share * 100).toFixed(1)} % of a core, slowest write ${Math.round(slowest)} ms; resident ${mib(mean(seen.map(({ all }) => all)))} MiB, at most ${mib(Math.max(...seen.map(({ all }) => all)))}: ${kinds.join(', ')}; ${threads} threads`,
    )
  } finally {
    await edge.stop()
  }
}

const folder = mkdtempSync(join(tmpdir(), 'svc-footprint-'))
const config = join(folder, 'central.toml')
writeFileSync(config, 'plugins = ["grpc", "sql"]\n[database]\nwarm_up_ms = 0\n')
const central = await runServer(config)
try {
  for (const variant of VARIANTS) await measure(variant, central, folder)
} finally {
  await central.stop()
  rmSync(folder, { recursive: true, force: true })
}
