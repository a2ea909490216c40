/**
 * Files that must survive a power cut once their call has returned, each on a disk that forgets: an atomically replaced file, in new directories too,
 * an API key that was made or revoked, and what a node writes into folders that it has made. Prints a JSON line: the number of cuts, or why it is skipped.
 *
 *   node test/crash/power-files.ts [cuts] [seed]
 */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { replaceFile } from 'svcdb/lib/files'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import { KeyStore } from '../../plugins/api_keys/key-store.ts'
import { newKey } from '../../plugins/api_keys/new-key.ts'
import { FolderStore } from '../../plugins/cold_archive/folder-store.ts'
import { mayServeDisk } from './power-cut.ts'
import { PowerMount } from './power-mount.ts'

/** @returns what is wrong, or undefined. */
type Check = () => string | undefined | Promise<string | undefined>
type Case = (root: string) => Promise<Check>

const text = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : 'missing')
const is = (path: string, expected: string) => (): string | undefined =>
  text(path) === expected ? undefined : `it reads ${JSON.stringify(text(path).slice(0, 40))}`
const keyStore = (root: string): KeyStore => new KeyStore({ root, envelope: undefined, monotonic: () => performance.now() })
const wanted = { name: 'ci', namespaces: [], roles: [], admin: false }

/** A node, until it has done something. Its data lies elsewhere where `more` does not say. */
async function served(plugins: string[], config: object, body: (node: TestNode) => Promise<unknown>, more: BootOptions = {}): Promise<void> {
  const node = await boot({ plugins: ['native', ...plugins], storage: 'embedded', config: config as never, ...more })
  try {
    await body(node)
  } finally {
    await node.stop()
  }
}

const write = (node: TestNode) =>
  node.inject({ method: 'POST', url: '/api/v1/write', payload: [{ measurement: 'm', timestamp: Date.now() * 1_000_000, fields: { v: 1 } }] })
const isThere = (path: string) => (): string | undefined => (existsSync(path) ? undefined : 'it is gone')

const CASES: Record<string, Case> = {
  'a replaced file is the new one': async (root) => {
    const path = join(root, 'file')
    for (const content of ['old', 'new'.repeat(1000)]) await replaceFile(path, content)
    return is(path, 'new'.repeat(1000))
  },
  'a file in new directories is there': async (root) => {
    const path = join(root, 'a', 'b', 'file')
    await replaceFile(path, 'content')
    return is(path, 'content')
  },
  'a key that was made is there': async (root) => {
    const store = keyStore(root)
    await store.open({ put() {}, drop() {} })
    const { record } = await newKey(wanted, 'svc_', 0)
    await store.write(record)
    return async () => ((await keyStore(root).records()).some(({ id }) => id === record.id) ? undefined : 'it is gone')
  },
  'a key that was revoked stays so': async (root) => {
    const store = keyStore(root)
    await store.open({ put() {}, drop() {} })
    const { record } = await newKey(wanted, 'svc_', 0)
    await store.write(record)
    await store.remove(record.id)
    return async () => ((await keyStore(root).records()).length === 0 ? undefined : 'it is back')
  },
  'an export into a new folder is there': async (root) => {
    const directory = join(root, 'new', 'exports')
    await served(['export'], { export: { directory } }, async (node) => {
      await write(node)
      await node.inject({ method: 'POST', url: '/api/v1/export/parquet', payload: { measurement: 'm', output_path: 'm.parquet' } })
    })
    return isThere(join(directory, 'm.parquet'))
  },
  'an audit log in a new folder is there': async (root) => {
    const path = join(root, 'new', 'logs', 'audit.jsonl')
    await served(['audit'], { audit: { path } }, write)
    return isThere(path)
  },
  'what an edge node queues in a new folder is there': async (root) => {
    const dataDir = join(root, 'new', 'edge')
    const forward = { upstream: [{ name: 'central', url: 'http://127.0.0.1:1' }] }
    await served([], { database: { forward } }, write, { storage: 'forward', dataDir })
    return isThere(join(dataDir, 'queue', '000000000001.queue'))
  },
  'an object in a new cold archive is there': async (root) => {
    const folder = join(root, 'new', 'cold')
    await served(['cold_archive'], { cold_archive: { remote_url: folder } }, async () => {})
    await new FolderStore(folder).put('day/object.parquet', import.meta.filename)
    return isThere(join(folder, 'day', 'object.parquet'))
  },
}

const folder = await mkdtemp(join(tmpdir(), 'svc-power-files-'))
const barred = mayServeDisk(folder)
if (barred !== undefined && 'exitCode' in barred) process.exit(barred.exitCode)
if (barred !== undefined) process.stdout.write(`${JSON.stringify({ skipped: barred.reason })}\n`)
else {
  const [cuts = '10', seed = '1'] = process.argv.slice(2)
  const problems: string[] = []
  const mount = await PowerMount.mount(join(folder, 'disk'))
  try {
    for (const [name, run] of Object.entries(CASES)) {
      for (let i = 0; i < Number(cuts); i++) {
        const root = join(mount.path, `${name} ${i}`)
        await replaceFile(join(root, 'beside'), '') // the directory is durable
        const check = await run(root)
        await mount.cut(Number(seed) + i)
        const problem = await check()
        if (problem !== undefined) problems.push(`${name}: ${problem}, seed ${Number(seed) + i}`)
      }
    }
  } finally {
    await mount.unmount()
  }
  process.stdout.write(`${JSON.stringify({ cases: Object.keys(CASES).length, problems })}\n`)
}
await rm(folder, { recursive: true })
