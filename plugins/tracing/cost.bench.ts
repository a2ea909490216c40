/**
 * What tracing costs: processor time of a server, all its threads, for writes and for small questions, without tracing and with several ratios. Servers take turns,
 * so that a busy machine is as unfair to all; medians of the rounds.
 *
 *   node plugins/tracing/cost.bench.ts [rounds=9] [root ...]
 *
 * @param root other checkouts, without tracing, to compare with.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const [first, ...rest] = process.argv.slice(2)
const given = /^rounds=(\d+)$/.exec(first ?? '')
const ROUNDS = Number(given?.[1] ?? 9)
const roots = given === null && first !== undefined ? [first, ...rest] : rest
const HERE = join(import.meta.dirname, '../..')
const ROWS = 100
const WRITES = 600
const QUESTIONS = 400
const WARM = 300

interface Server {
  name: string
  child: ChildProcess
  url: string
  folder: string
  writes: number[]
  questions: number[]
}

const agent = new Agent({ keepAlive: true, maxSockets: 2 })

/** A collector that takes everything. */
const collector = createServer((asked, answer) => asked.on('end', () => answer.writeHead(200).end()).resume())
await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve))
const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`

async function start(name: string, root: string, section: string): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tracing-'))
  const file = join(folder, 'svc.toml')
  const plugins = section === '' ? '' : '"tracing", '
  writeFileSync(
    file,
    `plugins = [${plugins}"line_protocol", "promql"]\n[server]\nhttp_addr = "127.0.0.1:0"\nlog_format = "json"\n[database]\ndata_dir = ${JSON.stringify(join(folder, 'data'))}\nwal_fsync_policy = "periodic_1000"\n${section}`,
  )
  const child = spawn(process.execPath, [join(root, 'kernel/main.ts'), 'serve', '--config', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  const url = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stderr?.on('data', (part: Buffer) => {
      text += part
      const found = /"url":"([^"]+)".*"msg":"ready"/.exec(text)
      if (found !== null) resolve(found[1])
    })
    child.once('exit', () => reject(new Error(text)))
  })
  return { name, child, url, folder, writes: [], questions: [] }
}

function ask(url: string, method: string, body?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, method }, (answer) => {
      if ((answer.statusCode ?? 500) >= 300) reject(new Error(`${method} ${url}: ${answer.statusCode}`))
      answer.on('end', resolve).resume()
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** Milliseconds of processor that its threads have had. */
function used({ child }: Server): number {
  const tasks = `/proc/${child.pid}/task`
  return readdirSync(tasks).reduce((sum, task) => sum + Number(readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ', 1)[0]), 0) / 1e6
}

async function load(many: number, one: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  const line = async (): Promise<void> => {
    while (next < many) await one(next++)
  }
  await Promise.all([line(), line()])
}

let second = Math.floor(Date.now() / 1000) - 86_400
const bodies = (): string[] =>
  Array.from({ length: WRITES }, () => {
    second++
    return Array.from({ length: ROWS }, (_, i) => `cpu,host=h${i},region=eu user=${i % 7},system=${(i * second) % 100} ${second}000000000`).join('\n')
  })

const writes = ({ url }: Server, texts: readonly string[]) => load(texts.length, (i) => ask(`${url}/write`, 'POST', texts[i]))
const questions = ({ url }: Server, many: number) => load(many, (i) => ask(`${url}/api/v1/query?query=cpu_user{host="h${i % ROWS}"}&time=${second}`, 'GET'))

const ratio = (part: number) => `[tracing]\nendpoint = "${endpoint}"\nprotocol = "http_protobuf"\nsampling = "ratio"\nratio = ${part}\n`
const servers = await Promise.all([
  ...roots.map((root) => start(`off, ${root}`, root, '')),
  start('off', HERE, ''),
  start('ratio 0.01', HERE, ratio(0.01)),
  start('always_on', HERE, `[tracing]\nendpoint = "${endpoint}"\nprotocol = "http_protobuf"\nsampling = "always_on"\n`),
])
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]

try {
  const warm = bodies()
  for (const server of servers) await writes(server, warm)
  for (const server of servers) await questions(server, WARM)
  for (let round = 0; round < ROUNDS; round++) {
    const texts = bodies()
    const turn = round % 2 === 0 ? servers : servers.toReversed()
    for (const server of turn) {
      const before = used(server)
      await writes(server, texts)
      const between = used(server)
      await questions(server, QUESTIONS)
      server.writes.push(((between - before) * 1000) / WRITES)
      server.questions.push(((used(server) - between) * 1000) / QUESTIONS)
    }
  }
  const [base] = servers
  const percent = (value: number, of: number) => `${((value / of - 1) * 100).toFixed(1)} %`.padStart(8)
  console.log(`${'µs of processor each'.padEnd(44)} write of ${ROWS} rows             question`)
  for (const { name, writes, questions } of servers) {
    const [written, asked] = [median(writes), median(questions)]
    console.log(
      `${name.padEnd(44)} ${written.toFixed(1).padStart(8)} ${percent(written, median(base.writes))} ${asked.toFixed(1).padStart(12)} ${percent(asked, median(base.questions))}   least ${Math.min(...writes).toFixed(1)}, ${Math.min(...questions).toFixed(1)}`,
    )
  }
} finally {
  for (const { child, folder } of servers) {
    child.kill('SIGTERM')
    await new Promise((resolve) => child.once('exit', resolve))
    rmSync(folder, { recursive: true, force: true })
  }
  collector.close()
  agent.destroy()
}
