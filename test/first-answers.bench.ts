/**
 * What the first questions of their kind cost beside later ones: a server is started and loaded, and each kind is asked 220 times. Shown of questions 1, 2 to 20 and
 * 201 to 220: wall time, and processor time of the main thread and of the process, milliseconds;
 * and of the first question of the kind about other fields after that, whose rows are cold as the first one's were, and whose code is not. Of several servers each kind is asked of one after the other.
 *
 *   node test/first-answers.bench.ts [hosts] [seconds between the start and the load] ['name=[node options] main.ts[,key of [database]=value]' ...]
 *   default: 200 0 0 here=kernel/main.ts
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const STEPS = 720
const INTERVAL = 10
const START = 1_700_000_000
const END = START + STEPS * INTERVAL
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((name) => `usage_${name}`)
const OTHER_FIELDS = FIELDS.map((_, i) => FIELDS[(i + 5) % FIELDS.length])
const EARLY = 20
const ASKED = 220
const BATCH_ROWS = 5000

const agent = new http.Agent({ keepAlive: true })

interface Server {
  name: string
  url: string
  child: ChildProcess
  dir: string
}

interface Cost {
  wall: number
  main: number
  all: number
}

async function request(url: string, body?: string, type = 'application/json'): Promise<string> {
  const headers = body === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(body) }
  const call = http.request(url, { method: body === undefined ? 'GET' : 'POST', agent, headers })
  call.end(body)
  const [answer] = (await once(call, 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const fragment of answer) text += fragment
  if ((answer.statusCode ?? 500) >= 300) throw new Error(`${url}: ${answer.statusCode} ${text}`)
  return text
}

function processorOf({ child }: Server): Omit<Cost, 'wall'> {
  let all = 0
  let main = 0
  for (const id of readdirSync(`/proc/${child.pid}/task`)) {
    try {
      const ms = Number(readFileSync(`/proc/${child.pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6
      all += ms
      if (Number(id) === child.pid) main = ms
    } catch {
      // It has just ended.
    }
  }
  return { main, all }
}

function residentMib({ child }: Server): number {
  return Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024)
}

async function start(name: string, program: readonly string[], keys: readonly string[]): Promise<Server> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-first-'))
  const config = join(dir, 'svc.toml')
  writeFileSync(
    config,
    `plugins = ["line_protocol", "native", "sql", "promql"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\nresult_cache_size = 0\n${[`data_dir = ${JSON.stringify(join(dir, 'data'))}`, ...keys].join('\n')}\n`,
  )
  const child = spawn(process.execPath, [...program, 'serve', '--config', config], { stdio: ['ignore', 'ignore', 'pipe'] })
  const url = await new Promise<string>((found, failed) => {
    let log = ''
    child.stderr?.on('data', (chunk) => {
      log += chunk
      const ready = /ready url=(\S+)/.exec(log)?.[1]
      if (ready !== undefined) found(ready)
    })
    child.on('exit', () => failed(new Error(`the server ended:\n${log}`)))
  })
  return { name, url, child, dir }
}

/** A random walk a field, in rounds over all hosts. */
async function load({ url }: Server, hosts: number): Promise<void> {
  let state = 7
  const random = (): number => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
  const walks = Float64Array.from({ length: hosts * FIELDS.length }, () => Math.floor(random() * 100))
  let lines: string[] = []
  for (let step = 0; step < STEPS; step++) {
    for (let host = 0; host < hosts; host++) {
      const values = FIELDS.map((name, f) => {
        const at = host * FIELDS.length + f
        walks[at] = Math.min(100, Math.max(0, walks[at] + (random() - 0.5) * 2))
        return `${name}=${Math.round(walks[at])}`
      })
      lines.push(`cpu,hostname=host_${host},region=region-${host % 9},service=${host % 20} ${values.join(',')} ${START + step * INTERVAL}`)
      if (lines.length < BATCH_ROWS && (step < STEPS - 1 || host < hosts - 1)) continue
      await request(`${url}/write?db=x&precision=s`, lines.join('\n'), 'text/plain')
      lines = []
    }
  }
}

type Question = (url: string, fields: readonly string[]) => Promise<string>

/** Statements name fields as FIELDS does. */
function kinds(): Record<string, Question> {
  const of = (text: string, fields: readonly string[]): string => text.replace(/usage_\w+/g, (name) => fields[FIELDS.indexOf(name)])
  const at = (seconds: number): string => `timestamp '${new Date(seconds * 1000).toISOString().slice(0, 19)}Z'`
  const during = (from: number, to: number): string => `_time >= ${at(from)} AND _time < ${at(to)}`
  const hour = during(START + 1800, START + 5400)
  const eight = Array.from({ length: 8 }, (_, i) => `host_${i * 7 + 3}`)
  const five = FIELDS.slice(0, 5)
  const sql =
    (query: string): Question =>
    (url, fields) =>
      request(`${url}/api/v1/svc/sql`, JSON.stringify({ query: of(query, fields) }))
  const range =
    (query: string, step: number): Question =>
    (url, fields) =>
      request(`${url}/api/v1/query_range?query=${encodeURIComponent(of(query, fields))}&start=${START + 1800}&end=${START + 5400}&step=${step}`)
  const instant =
    (query: string): Question =>
    (url, fields) =>
      request(`${url}/api/v1/query?query=${encodeURIComponent(of(query, fields))}&time=${END}`)
  const union = five
    .map((name) => `label_replace(max(max_over_time(cpu_${name}{hostname=~"${eight.join('|')}"}[1m])), "field", "${name}", "", "")`)
    .join(' or ')
  return {
    'SQL 1-1-1': sql(
      `SELECT time_bucket(INTERVAL '1 minute', _time) AS t, max(usage_user) FROM cpu WHERE hostname = 'host_7' AND ${hour} GROUP BY 1 ORDER BY 1`,
    ),
    'SQL 5-8-1': sql(
      `SELECT time_bucket(INTERVAL '1 minute', _time) AS t, ${five.map((name) => `max(${name})`).join(', ')} FROM cpu WHERE hostname IN (${eight.map((name) => `'${name}'`).join(', ')}) AND ${hour} GROUP BY 1 ORDER BY 1`,
    ),
    'SQL double-groupby-1': sql(
      `SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, avg(usage_user) FROM cpu WHERE ${during(START, END)} GROUP BY 1, 2 ORDER BY 1, 2`,
    ),
    'SQL high-cpu': sql(`SELECT count(*) FROM cpu WHERE usage_user > 90 AND ${during(START, END)}`),
    'SQL lastpoint': sql('SELECT hostname, max(_time), arg_max(usage_user, _time) FROM cpu GROUP BY hostname ORDER BY hostname'),
    'SQL rows': sql(`SELECT _time, hostname, usage_user, usage_idle FROM cpu WHERE hostname = 'host_5' AND ${hour} ORDER BY _time DESC LIMIT 50`),
    'SQL in DuckDB': sql(
      `SELECT region, quantile_cont(usage_user, 0.9) AS q FROM cpu WHERE ${hour} AND usage_idle > 20 GROUP BY region HAVING count(*) > 3 ORDER BY q`,
    ),
    'PromQL 1-1-1': range('max_over_time(cpu_usage_user{hostname="host_7"}[1m])', 60),
    'PromQL 5-8-1': range(union, 60),
    'PromQL one series': range('cpu_usage_user{hostname="host_9"}', 15),
    'PromQL sum': instant('sum by (region) (cpu_usage_user)'),
    'PromQL rate': range('sum by (region) (rate(cpu_usage_user[5m]))', 60),
    'PromQL topk': range('topk(5, avg_over_time(cpu_usage_idle[10m]))', 60),
    native: (url, fields) =>
      request(
        `${url}/api/v1/svc/query`,
        JSON.stringify({
          measurement: 'cpu',
          tags: { hostname: 'host_3' },
          range: { start: Number(START) * 1e9, end: END * 1e9 },
          fields: fields.slice(0, 1),
          limit: 100,
        }),
      ),
  }
}

const sum = (costs: readonly Cost[], of: keyof Cost): number => costs.reduce((total, cost) => total + cost[of], 0)
const middle = (costs: readonly Cost[]): number => costs.map(({ wall }) => wall).toSorted((a, b) => a - b)[costs.length >> 1]

async function ask(server: Server, question: Question): Promise<string> {
  const costs: Cost[] = []
  for (let i = 0; i <= ASKED; i++) {
    const before = processorOf(server)
    const began = performance.now()
    await question(server.url, i < ASKED ? FIELDS : OTHER_FIELDS)
    const wall = performance.now() - began
    const { main, all } = processorOf(server)
    costs.push({ wall, main: main - before.main, all: all - before.all })
  }
  const shown = [costs.slice(0, 1), costs.slice(1, EARLY), costs.slice(ASKED - EARLY, ASKED), costs.slice(ASKED)].map((part) => {
    const [main, all] = (['main', 'all'] as const).map((of) => (sum(part, of) / part.length).toFixed(2).padStart(7))
    return `${middle(part).toFixed(2).padStart(8)} ${main} ${all}`
  })
  const worst = Math.max(...costs.slice(0, EARLY).map(({ wall }) => wall))
  const p50 = middle(costs.slice(0, EARLY))
  return `${shown.join(' |')} | ${worst.toFixed(1).padStart(7)} ${p50.toFixed(2).padStart(7)}`
}

const [hosts = '200', wait = '0', rest = '0', ...given] = process.argv.slice(2)
const servers: Server[] = []
try {
  for (const each of given.length > 0 ? given : [`here=${join(import.meta.dirname, '../kernel/main.ts')}`]) {
    const [program, ...keys] = each.split(',')
    const [, name, options, main] = /^(\w+)=(.* )?(\S+)$/.exec(program) as RegExpExecArray
    const server = await start(name, [...(options ?? '').split(' ').filter(Boolean), resolve(main)], keys)
    servers.push(server)
    await sleep(Number(wait) * 1000)
    const began = performance.now()
    await load(server, Number(hosts))
    const loaded = performance.now() - began
    await sleep(Number(rest) * 1000)
    process.stdout.write(
      `${name}: loaded in ${Math.round(loaded)} ms, ${Math.round(processorOf(server).all)} ms of processor since the start, ${residentMib(server)} MiB resident\n`,
    )
  }
  process.stdout.write(
    `${''.padEnd(30)}   first: wall, main, all  | 2 to 20: wall, main, all | 201 to 220               | other fields             | worst and middle of 20\n`,
  )
  for (const [kind, question] of Object.entries(kinds()))
    for (const server of servers) process.stdout.write(`${kind.padEnd(21)} ${server.name.padEnd(8)} ${await ask(server, question)}\n`)
} finally {
  for (const { child, dir } of servers) {
    child.removeAllListeners('exit')
    child.kill('SIGTERM')
    await once(child, 'exit')
    rmSync(dir, { recursive: true, force: true })
  }
  agent.destroy()
}
