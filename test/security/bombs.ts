/**
 * Statements that no reader may do harm with, and what they cost: sends them to a real server and watches the memory and the processor time of its
 * processes from outside. `node test/security/bombs.ts 200 7` sends 200 that are made at random from seed 7, several at once, and prints each.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import { family, processorMs } from '../support/processor-time.ts'
import { type RunningServer, runServer } from '../support/server.ts'

const MIB = 1 << 20
export const TIMEOUT_SECS = 4
/** One query thread, two engine processes. */
export const QUERY_MEMORY_MIB = 3 * 64

/** A long text in each row. */
const LONG = `(SELECT CASE WHEN v >= 0 THEN host || '${'aB'.repeat(8000)}' END AS s, _time FROM load)`
const columns = (count: number, one: (i: number) => string): string => Array.from({ length: count }, (_, i) => one(i)).join(', ')

export const BOMBS: Record<string, string> = {
  range: 'SELECT len(range(1000000000))',
  repeat: "SELECT repeat('x', 1000000000)",
  comprehension: 'SELECT [range(1000000) FOR x IN range(1000)]',
  lpad: "SELECT lpad('x', 2000000000, 'y')",
  printf: "SELECT printf('%2000000000d', 1)",
  format: "SELECT format('{:2000000000d}', 1)",
  bitstring: "SELECT bitstring('1', 2000000000)",
  map: 'SELECT map(range(5000000), range(5000000))',
  unions: `SELECT 1${' UNION ALL SELECT 1'.repeat(40_000)}`,
  moreUnions: `SELECT 1${' UNION ALL SELECT 1'.repeat(4000)}`,
  list: 'SELECT len(list(a.v)) FROM load a, load b, load c, load d',
  text: "SELECT length(string_agg(a.host || 'xxxxxxxxxxxxxxxx', ',')) FROM load a, load b, load c, load d",
  levenshtein: "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
  lambdas: `SELECT ${Array.from({ length: 30 }, (_, i) => `list_transform(range(100), x${i} -> `).join('')}1${')'.repeat(30)}`,
  conjunction: `SELECT ${'1=1 AND '.repeat(100_000)}1=1`,
  shortConjunction: `SELECT ${'1=1 AND '.repeat(6000)}1=1`,
  doubled: `WITH c0 AS (SELECT 1 AS x), ${Array.from({ length: 11 }, (_, i) => `c${i + 1} AS (SELECT a.x FROM c${i} a, c${i} b)`).join(', ')} SELECT count(*) FROM c11`,
  aliases: `SELECT v AS a0, ${columns(40, (i) => `a${i} + a${i} AS a${i + 1}`)} FROM load`,
  matches: 'SELECT COLUMNS(lambda c: len(repeat(c, 1000000000)) > 0) FROM load',
  sort: 'SELECT i FROM range(1000000000) r(i) ORDER BY hash(i) LIMIT 1 OFFSET 900000000',
  join: 'SELECT sum(a.v * b.v * c.v * d.v) FROM load a JOIN load b ON a.dc = b.dc JOIN load c ON b.dc = c.dc JOIN load d ON c.dc = d.dc',
  explain: 'EXPLAIN ANALYZE SELECT len(range(1000000000))',
  describe: "DESCRIBE SELECT repeat('x', 1000000000)",
  // Texts in many columns, which DuckDB does not count.
  texts: `SELECT ${columns(100, (i) => `max(length(left(s, ${16_000 - i})))`)} FROM ${LONG}`,
  windows: `SELECT ${columns(60, (i) => `max(length(c${i}))`)} FROM (SELECT ${columns(60, (i) => `lag(s, ${i}) OVER (ORDER BY _time) AS c${i}`)} FROM ${LONG})`,
  formats: `SELECT ${columns(400, (i) => `max(length(strftime(_time, '${'%c'.repeat(110)}${i}')))`)} FROM load`,
  copies: `SELECT ${columns(200, (i) => `s AS c${i}`)} FROM ${LONG}`,
}

/** Of an answer that does not come at all. */
export const ANSWER_LIMIT_MS = 120_000

export interface Answer {
  status: number
  body: string
  ms: number
}

export class Target {
  readonly server: RunningServer
  private readonly folder: string
  private readonly idle: number
  private readonly timer: NodeJS.Timeout
  /** Bytes above those of a server that has answered its first query, since the last `peak()`. */
  private most = 0

  private constructor(server: RunningServer, folder: string) {
    this.server = server
    this.folder = folder
    this.idle = residentBytes(server.pid)
    this.timer = setInterval(() => {
      this.most = Math.max(this.most, residentBytes(server.pid) - this.idle)
    }, 10)
  }

  static async start(): Promise<Target> {
    const folder = mkdtempSync(join(tmpdir(), 'svc-bombs-'))
    const config = join(folder, 'svc.toml')
    writeFileSync(
      config,
      `plugins = ["sql", "line_protocol"]\n[server]\nsql_query_timeout_secs = ${TIMEOUT_SECS}\nshutdown_timeout_secs = 8\n[database]\nper_query_memory_limit = ${64 * MIB}\nquery_threads = 1\nwarm_up_ms = 0\nmax_scratch_size = ${64 * MIB}\n`,
    )
    const server = await runServer(config)
    const now = BigInt(Date.now()) * 1_000_000n
    const lines = Array.from({ length: 1000 }, (_, i) => `load,host=h${i % 50},dc=d v=${i} ${now - BigInt(i) * 1_000_000n}`)
    await write(server.url, lines.join('\n'))
    await query(server.url, 'SELECT count(*) FROM load')
    return new Target(server, folder)
  }

  peak(): number {
    const { most } = this
    this.most = 0
    return most
  }

  query(sql: string): Promise<Answer> {
    return query(this.server.url, sql)
  }

  write(line: string): Promise<number> {
    return write(this.server.url, line)
  }

  /** Processor time that the server and its processes have used, those that have ended included. */
  processorMs(): number {
    return processorMs(this.server.pid)
  }

  async stop(): Promise<number | null> {
    clearInterval(this.timer)
    const code = await this.server.stop()
    rmSync(this.folder, { recursive: true, force: true })
    return code
  }
}

async function query(url: string, sql: string): Promise<Answer> {
  const began = performance.now()
  const answer = await fetch(`${url}/api/v1/svc/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: sql }),
    signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
  })
  // What fails behind its first rows can only be cut.
  const body = await answer.text().catch((error: Error) => `cut: ${error.message}`)
  return { status: answer.status, body, ms: performance.now() - began }
}

async function write(url: string, lines: string): Promise<number> {
  return (await fetch(`${url}/write`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: lines })).status
}

/** Anonymous memory: what is mapped from files, the program above all, is shared. */
function residentBytes(pid: number): number {
  let sum = 0
  for (const each of family(pid)) {
    try {
      sum += Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${each}/status`, 'latin1'))?.[1] ?? 0) * 1024
    } catch {
      // It has ended.
    }
  }
  return sum
}

/** A statement that may take any amount of something. */
export function randomBomb(random: () => number): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const large = (): string => pick(['100000', '10000000', '1000000000', '2147483647'])
  const list = (depth: number): string =>
    depth === 0
      ? pick([`range(${large()})`, `generate_series(1, ${large()})`, '[1, 2, 3]', '(SELECT list(v) FROM load)'])
      : pick([
          () => `list_transform(${list(depth - 1)}, x -> ${scalar(depth - 1)})`,
          () => `list_sort(${list(depth - 1)})`,
          () => `list_concat(${list(depth - 1)}, ${list(depth - 1)})`,
          () => `list_resize(${list(depth - 1)}, ${large()})`,
          () => `[${list(depth - 1)}]::VARCHAR[]`,
        ])()
  const text = (depth: number): string =>
    depth === 0
      ? pick(["'x'", "'ab'", "repeat('abc', 1000)"])
      : pick([
          () => `repeat(${text(depth - 1)}, ${large()})`,
          () => `lpad(${text(depth - 1)}, ${large()}, 'y')`,
          () => `replace(${text(depth - 1)}, 'a', ${text(depth - 1)})`,
          () => `regexp_replace(${text(depth - 1)}, '(a|b)*', ${text(depth - 1)}, 'g')`,
          () => `array_to_string(${list(depth - 1)}, ',')`,
          () => `printf('%${large()}d', 1)`,
          () => `(SELECT string_agg(${text(depth - 1)}, ',') FROM load a, load b)`,
        ])()
  const scalar = (depth: number): string =>
    pick([
      () => `len(${list(depth)})`,
      () => `length(${text(depth)})`,
      () => `levenshtein(${text(depth)}, ${text(depth)})`,
      () => `md5(${text(depth)})::VARCHAR`,
    ])()
  const depth = Math.floor(random() * 4)
  return pick([
    () => `SELECT ${scalar(depth)}`,
    () => `SELECT ${list(depth)}`,
    () => `SELECT ${text(depth)} FROM load`,
    () => `SELECT count(*), max(${scalar(depth)}) FROM range(${large()}) r(i), range(${large()}) s(j) GROUP BY i % ${large()}, j`,
    () => `WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t, range(${large()})) SELECT ${scalar(depth)} FROM t`,
    () => `SELECT list(a.v ORDER BY b.v), quantile_cont(c.v, 0.5) FROM load a, load b, load c`,
    () => `SELECT sum(v) OVER (ORDER BY ${scalar(depth)}) FROM load, range(${large()})`,
  ])()
}

if (import.meta.main) {
  const [count = 50, seed = 1] = process.argv.slice(2).map(Number)
  const random = seeded(seed)
  const target = await Target.start()
  try {
    const left = [...Object.entries(BOMBS), ...Array.from({ length: count }, (_, i): [string, string] => [`random ${i}`, randomBomb(random)])]
    for (const [name, sql] of left) {
      const before = target.processorMs()
      const { status, body, ms } = await target.query(sql)
      const used = target.processorMs() - before
      await new Promise((resolve) => setTimeout(resolve, 200))
      const after = target.processorMs() - before - used
      console.log(
        `${name}: ${status} after ${Math.round(ms)} ms, peak +${Math.round(target.peak() / MIB)} MiB, processor time after the answer ${after} ms: ${status === 200 ? body.length : body.slice(0, 110)}`,
      )
    }
  } finally {
    console.log('exit code', await target.stop())
  }
}
