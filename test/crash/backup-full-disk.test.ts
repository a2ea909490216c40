/** Backups, restores and an archive whose own volume is full: the error names the place that has no room, not the data volume, and what was there stays whole. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import backup from '../../plugins/backup/index.ts'
import archive from '../../plugins/cold_archive/index.ts'
import line from '../../plugins/line_protocol/index.ts'
import { eventually, until } from '../support/until.ts'
import { SmallDisk } from './small-disk.ts'

const DAY_MS = 86_400_000

/** A volume of its own. */
function mounted(mebibytes: number): SmallDisk {
  return SmallDisk.mount(mkdtempSync(join(tmpdir(), 'svc-mount-')), mebibytes)
}

/** Why this process may not mount. */
function refused(): string | undefined {
  try {
    const disk = mounted(1)
    disk.unmount()
    rmSync(disk.path, { recursive: true })
    return undefined
  } catch (error) {
    return (error as Error).message.split('\n')[0]
  }
}

const skip = refused()

async function running(t: Test, disk: SmallDisk, start: () => Promise<TestNode>): Promise<TestNode> {
  const node = await start()
  t.teardown(async () => {
    await node.stop()
    disk.unmount()
    rmSync(disk.path, { recursive: true, force: true })
  })
  return node
}

async function write(node: TestNode, lines: string[]): Promise<void> {
  const answer = await node.inject({ method: 'POST', url: '/write?precision=ms&backfill=true', payload: lines.join('\n') })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

t.test('backups and restores', { skip }, async (t) => {
  const disk = mounted(4)
  const node = await running(t, disk, () => boot({ plugins: [backup, line], storage: 'embedded', config: { server: { backup_root: disk.path } } }))
  const post = async (path: string, payload: object) => {
    const answer = await node.inject({ method: 'POST', url: `/api/v1/admin/${path}`, payload })
    return { status: answer.statusCode, ...answer.json() }
  }
  await write(node, [`m f=1 ${Date.now()}`])
  const made = await post('backup', { target_dir: 'one' })
  t.equal(made.status, 200)
  await write(node, [`m f=2 ${Date.now()}`])
  // None at all, some for the copy of the catalog, and just not enough for what is changed in it.
  for (const leave of [0, 100_000, made.total_bytes]) {
    disk.fill(leave)
    for (const name of ['one', 'two'])
      t.match(await post('backup', { target_dir: name }), {
        status: 507,
        code: 'STORAGE_FULL',
        error: `cannot make backup "${join(disk.path, name)}": no space left on the volume of "${disk.path}`,
      })
    if (leave < made.total_bytes)
      t.match(await post('restore', { backup_dir: 'one', target_dir: 'three' }), {
        status: 507,
        code: 'STORAGE_FULL',
        error: `cannot restore backup "${join(disk.path, 'one')}" to "${join(disk.path, 'three')}": no space left on the volume of "${disk.path}`,
      })
    disk.release()
    t.same(readdirSync(disk.path), ['one'], 'nothing is left behind')
    t.same(await post('backup/verify', { backup_dir: 'one' }), made)
  }
  t.equal((await post('backup', { target_dir: 'one' })).status, 200)
})

t.test('a backup to another volume, while that of the data is full', { skip }, async (t) => {
  const [disk, root] = [mounted(8), temporaryFolder(t)]
  const dataDir = join(disk.path, 'data')
  const node = await running(t, disk, () => boot({ plugins: [backup, line], storage: 'embedded', dataDir, config: { server: { backup_root: root } } }))
  const make = () => node.inject({ method: 'POST', url: '/api/v1/admin/backup', payload: { target_dir: 'one' } })
  await write(node, [`m f=1 ${Date.now()}`])
  disk.fill()
  const refused = await make()
  t.match([refused.statusCode, refused.json()], [507, { code: 'STORAGE_FULL', error: /no space left on the data volume/ }])
  t.same(readdirSync(root), [])
  disk.release()
  await eventually(async () => (await make()).statusCode === 200)
})

t.test('an archive in a folder', { skip }, async (t) => {
  const disk = mounted(1)
  disk.fill()
  const lines: string[] = []
  const config = { cold_archive: { remote_url: disk.path, cold_after_secs: 86_400, interval_secs: 1 } }
  const node = await running(t, disk, () => boot({ plugins: [archive, line], storage: 'embedded', config, log: (text) => lines.push(text) }))
  await write(node, [`m f=1 ${Date.now() - 10 * DAY_MS}`, `m f=2 ${Date.now()}`])
  await node.storage.flush?.()
  await until('the log says so', () => lines.some((text) => text.includes(`in folder \\"${disk.path}\\": no space left on its volume`)))
})
