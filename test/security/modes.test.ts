/** Whatever a server writes is its owner's only, under the umask that machines come with, and where an older version left it open. */
import { chmod, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { runServer } from '../support/server.ts'

const ADMIN = `svc_${'a'.repeat(43)}`
const CONFIG = `
plugins = ["native", "line_protocol", "export", "backup", "api_keys", "audit"]
[database]
data_dir = "by the environment"
[[auth.api_keys]]
name = "admin"
key = "${ADMIN}"
admin = true
`

/** Permission bits of everything below a directory and of itself, by path relative to it; links have none. */
async function modes(directory: string): Promise<Map<string, { mode: string; folder: boolean }>> {
  const found = new Map<string, { mode: string; folder: boolean }>()
  for (const name of ['', ...(await readdir(directory, { recursive: true }))]) {
    // What the server removes meanwhile, such as files it warms up with, has none any more.
    const status = await lstat(join(directory, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return undefined
    })
    if (status?.isSymbolicLink() === false) found.set(name, { mode: (status.mode & 0o777).toString(8), folder: status.isDirectory() })
  }
  return found
}

t.test('after writes, a flush, a backup, an export and a stop', async (t) => {
  const before = process.umask(0o022)
  t.teardown(() => process.umask(before))
  const root = await mkdtemp(join(tmpdir(), 'svc-modes-'))
  t.teardown(() => rm(root, { recursive: true, force: true }))
  const data = join(root, 'data')
  await mkdir(join(data, 'catalog'), { recursive: true })
  for (const directory of [data, join(data, 'catalog')]) await chmod(directory, 0o755)
  const config = join(root, 'svc.toml')
  await writeFile(config, CONFIG)
  const server = await runServer(config, { env: { SVC_DATA_DIR: data } })
  let ended = false
  t.teardown(() => ended || server.stop())
  const ask = async (path: string, body: string, type = 'application/json'): Promise<unknown> => {
    const answer = await fetch(server.url + path, { method: 'POST', headers: { authorization: `Bearer ${ADMIN}`, 'content-type': type }, body })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
  await ask('/write?precision=s', 'cpu,host=a usage=0.5 1700000000\ncpu,host=b usage=1.5 1700000000', 'text/plain')
  await ask('/api/v1/admin/backup', '{"target_dir":"b1"}')
  await ask('/write?precision=s', 'cpu,host=a usage=0.5 1700000001', 'text/plain')
  await ask('/api/v1/export/parquet', '{"measurement":"cpu"}')
  const running = await modes(data)
  t.equal(await server.stop(), 0)
  ended = true
  const stopped = await modes(data)

  const named = (pattern: RegExp): boolean => [...running.keys()].some((name) => pattern.test(name))
  for (const part of [
    /^wal\/./,
    /^segments\/.*\.parquet$/,
    /^catalog\/data\.mdb$/,
    /^backups\/b1\/segments\/.*\.parquet$/,
    /^exports\/.*\.parquet$/,
    /audit.*\.jsonl$/,
  ])
    t.ok(named(part), `there is ${part}`)
  t.ok(named(/^backups\/b1\/catalog\/data\.mdb$/) && named(/^LOCK\.os$/))
  for (const [name, { mode, folder }] of [...running, ...stopped]) t.equal(mode, folder ? '700' : '600', name)
})

t.test('a folder of another purpose is left as it is, and one that is empty is closed', async (t) => {
  const before = process.umask(0o022)
  t.teardown(() => process.umask(before))
  const root = await mkdtemp(join(tmpdir(), 'svc-modes-'))
  t.teardown(() => rm(root, { recursive: true, force: true }))
  const config = join(root, 'svc.toml')
  await writeFile(config, 'plugins = ["native"]\n')
  const [shared, empty, volume] = ['shared', 'empty', 'volume'].map((name) => join(root, name))
  for (const folder of [shared, empty, volume, join(volume, 'lost+found')]) await mkdir(folder, { mode: 0o755 })
  await writeFile(join(shared, 'notes.txt'), 'of somebody else')
  for (const start of ['first', 'second']) {
    for (const folder of [shared, empty, volume]) {
      const server = await runServer(config, { env: { SVC_DATA_DIR: folder } })
      await server.stop()
      const { mode } = await lstat(folder)
      t.equal((mode & 0o777).toString(8), folder === shared ? '755' : '700', `${start} start in ${folder}`)
      t.equal(/holds files of others, and stays open to other accounts/.test(server.output()), folder === shared)
    }
  }
  for (const [name, { mode, folder }] of await modes(shared)) if (folder && name !== '') t.equal(mode, '700', name)
})

t.test('the directory of a node that sends on is closed by the same rules', async (t) => {
  const before = process.umask(0o022)
  t.teardown(() => process.umask(before))
  const root = await mkdtemp(join(tmpdir(), 'svc-modes-'))
  t.teardown(() => rm(root, { recursive: true, force: true }))
  const config = join(root, 'svc.toml')
  await writeFile(config, 'plugins = ["line_protocol"]\n[database]\nengine = "forward"\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:1"\n')
  const [shared, empty, older] = ['shared', 'empty', 'older'].map((name) => join(root, name))
  for (const folder of [shared, empty, older, join(older, 'queue')]) await mkdir(folder, { mode: 0o755 })
  for (const folder of [shared, older]) await writeFile(join(folder, 'notes.txt'), 'of somebody else')
  for (const folder of [shared, empty, older]) {
    const server = await runServer(config, { env: { SVC_DATA_DIR: folder } })
    await server.stop()
    const { mode } = await lstat(folder)
    t.equal((mode & 0o777).toString(8), folder === shared ? '755' : '700', folder)
    t.equal(/holds files of others, and stays open to other accounts/.test(server.output()), folder === shared)
  }
})
