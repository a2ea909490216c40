/** A real PostgreSQL for tests, on a free port of 127.0.0.1, in a temporary folder. Undefined where none is installed: the test is skipped and says so. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, chownSync, existsSync, globSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from './free-port.ts'

export const NO_POSTGRES =
  'no PostgreSQL of version 15 or later is installed (Debian: apt-get install postgresql); SVC_TEST_POSTGRES_BIN names the folder of its programs'

/** Relations are a hundred times smaller than what an operator has: less memory, and no waiting for syncs of a new cluster. */
const SETTINGS = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'shared_buffers=32MB', 'max_connections=60', 'logging_collector=off']

export interface TestPostgres {
  /** Of an own, empty database each time. */
  database(): Promise<string>
  /** By an administrator. */
  query<R>(text: string, database?: string): Promise<R[]>
  port: number
  dataDir: string
  /** Of the postmaster. */
  pid: number
  /** As an administrator does: sessions are ended, what is committed is on the disk. */
  restart(): Promise<void>
  /** Nothing answers any more, until what it returns is called. */
  pause(): () => void
  /** SIGKILL, and its children with it, as a machine that goes. */
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

export function postgresBin(): string | undefined {
  const folders = [
    process.env.SVC_TEST_POSTGRES_BIN ?? '',
    ...(process.env.PATH ?? '').split(delimiter),
    ...globSync('/usr/lib/postgresql/*/bin').toSorted().toReversed(),
  ]
  const folder = folders.find((one) => one !== '' && existsSync(join(one, 'initdb')) && existsSync(join(one, 'postgres')))
  if (folder === undefined) return undefined
  const version = Number(/(\d+)/.exec(execFileSync(join(folder, 'postgres'), ['--version'], { encoding: 'utf8' }))?.[1])
  return version >= 15 ? folder : undefined
}

/** PostgreSQL does not run as root. */
function asOther(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

export interface PostgresOptions {
  /** A hot standby that follows it. */
  of?: TestPostgres
  /** Where its folder is made. */
  within?: string
}

/** @param settings `name=value` each. */
export async function startPostgres(settings: readonly string[] = [], { of, within = tmpdir() }: PostgresOptions = {}): Promise<TestPostgres | undefined> {
  const bin = postgresBin()
  if (bin === undefined) return undefined
  const user = asOther()
  const folder = mkdtempSync(join(within, 'svc-postgres-'))
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid as number)
  const dataDir = join(folder, 'data')
  const init = ['-D', dataDir, '-U', 'svc', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync', '--no-instructions']
  const port = await freePort()
  if (of === undefined) execFileSync(join(bin, 'initdb'), init, { ...user, cwd: folder, stdio: 'ignore' })
  else {
    // The folder in the path may have links to the server's own programs only.
    const copy = join(dirname(realpathSync(join(bin, 'postgres'))), 'pg_basebackup')
    execFileSync(copy, ['-D', dataDir, '-h', '127.0.0.1', '-p', String(of.port), '-U', 'svc', '-R', '-c', 'fast'], { ...user, cwd: folder, stdio: 'ignore' })
  }
  appendFileSync(join(dataDir, 'postgresql.auto.conf'), `port = ${port}\n`)
  let child: ChildProcess | undefined
  const url = (database: string): string => `postgres://svc@127.0.0.1:${port}/${database}`
  let databases = 0
  const running: TestPostgres = {
    port,
    dataDir,
    get pid() {
      return child?.pid as number
    },
    async query<R>(text: string, database = 'postgres') {
      const client = new pg.Client({ connectionString: url(database) })
      client.on('error', () => {})
      await client.connect()
      try {
        return (await client.query(text)).rows as R[]
      } finally {
        await client.end()
      }
    },
    async database() {
      const name = `test_${++databases}`
      await running.query(`CREATE DATABASE ${name}`)
      return url(name)
    },
    async start() {
      const args = ['-D', dataDir, ...[...SETTINGS, ...settings].flatMap((setting) => ['-c', setting])]
      for (let tries = 0; ; tries++) {
        // After a kill it may find that the memory of the one before is not free yet.
        if (child === undefined || child.exitCode !== null || child.signalCode !== null)
          child = spawn(join(bin, 'postgres'), args, { ...user, cwd: folder, stdio: 'ignore' })
        try {
          await running.query('SELECT 1')
          return
        } catch (error) {
          if (tries === 600) throw error
          await setTimeout(50)
        }
      }
    },
    async restart() {
      const gone = once(child as ChildProcess, 'exit')
      child?.kill('SIGINT')
      await gone
      await running.start()
    },
    pause() {
      // The one that would start others goes first.
      const all = [running.pid, ...childrenOf(running.pid)]
      for (const pid of all) signal(pid, 'SIGSTOP')
      return () => {
        for (const pid of all) signal(pid, 'SIGCONT')
      }
    },
    async kill() {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      // Each child is a process group of its own. The one that would restart them goes first.
      const children = childrenOf(child.pid as number)
      child.kill('SIGKILL')
      for (const one of children) signal(one, 'SIGKILL')
      await gone
    },
    async stop() {
      await running.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  await running.start()
  return running
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text === '' ? [] : text.split(' ').map(Number)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // it has ended by itself
  }
}
