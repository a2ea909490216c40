/** A ClickHouse for tests: that of SVC_TEST_CLICKHOUSE_URL (with _CLUSTER, _USER and _PASSWORD), or chdb behind a small server, when its package is installed in test/interop. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Secret, type StorageEngine } from 'svcdb'
import { MapState } from '../../../storage/common/map-state.ts'
import { ROOT } from '../tree.ts'

const PACKAGES = join(ROOT, 'test/interop')

/** Why chdb is not there; undefined when it is. */
export const NO_CHDB = existsSync(join(PACKAGES, 'node_modules/chdb')) ? undefined : 'no chdb: run npm install --prefix test/interop, which brings it (550 MB)'

/** Why there is none; undefined when there is one. */
export const NO_CLICKHOUSE =
  process.env.SVC_TEST_CLICKHOUSE_URL !== undefined || existsSync(join(PACKAGES, 'node_modules/chdb'))
    ? undefined
    : 'no ClickHouse: set SVC_TEST_CLICKHOUSE_URL, or run npm install --prefix test/interop, which brings chdb (550 MB)'

/** What a server that the environment names wants beside its URL: keys of [database.clickhouse]. */
export const GIVEN: Record<string, unknown> = {
  ...(process.env.SVC_TEST_CLICKHOUSE_CLUSTER === undefined ? {} : { cluster: process.env.SVC_TEST_CLICKHOUSE_CLUSTER }),
  ...(process.env.SVC_TEST_CLICKHOUSE_USER === undefined ? {} : { username: process.env.SVC_TEST_CLICKHOUSE_USER }),
  ...(process.env.SVC_TEST_CLICKHOUSE_PASSWORD === undefined ? {} : { password: new Secret(process.env.SVC_TEST_CLICKHOUSE_PASSWORD) }),
}

export interface ClickHouse {
  url: string
  /** Of [database.clickhouse]. */
  section: Record<string, unknown>
  /** Directory of its disk for backups, which is called "backups"; a server that the environment names has none that is known. */
  backups?: string
  stop(): Promise<void>
}

export async function startClickHouse(): Promise<ClickHouse> {
  const { SVC_TEST_CLICKHOUSE_URL: url } = process.env
  return url === undefined ? startChdb() : { url, section: { url, ...GIVEN }, async stop() {} }
}

/** @param cluster it takes statements for a cluster of that name, of which it is the only server that is there. */
export async function startChdb(cluster = ''): Promise<ClickHouse> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-clickhouse-'))
  const child: ChildProcess = spawn(process.execPath, [join(import.meta.dirname, 'server.ts'), PACKAGES, folder, cluster], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout as NonNullable<ChildProcess['stdout']> })
  const port = await Promise.race([once(lines, 'line').then(([line]) => Number(line)), exited.then(() => Number.NaN)])
  if (Number.isNaN(port)) throw new Error('cannot start the ClickHouse of the tests: its process has ended')
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    section: { url, ...(cluster === '' ? {} : { cluster }) },
    backups: join(folder, 'backups'),
    async stop() {
      child.kill('SIGKILL')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** An engine without state, with a state store in memory beside it. */
export function withState(engine: StorageEngine): StorageEngine {
  const states = new Map<string, MapState>()
  const state = (owner: string): MapState => {
    const known = states.get(owner) ?? new MapState()
    states.set(owner, known)
    return known
  }
  return new Proxy(engine, {
    get(target, name) {
      if (name === 'state') return state
      if (name === 'capabilities') return new Set([...target.capabilities, 'state'])
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
