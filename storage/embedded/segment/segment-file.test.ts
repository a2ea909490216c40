import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { tempDir } from '../testing/harness.ts'
import { SegmentFiles, writeSegmentFile } from './segment-file.ts'

/** The real file system, with the calls that make a file durable and visible in `calls`. @param fail which of them fails. */
function recording(dir: string, calls: string[], fail = ''): FileSystem {
  const { promises } = realFileSystem
  const short = (path: string) => path.slice(dir.length + 1) || '.'
  const call = (text: string): void => {
    calls.push(text)
    if (text === fail) throw Object.assign(new Error(`EIO: ${text}`), { code: 'EIO' })
  }
  return {
    ...realFileSystem,
    promises: {
      ...promises,
      open: async (path, flags) => {
        const file = await promises.open(path, flags)
        const sync = async () => {
          call(`sync ${short(path)}`)
          await file.sync()
        }
        return { ...file, sync, close: () => file.close() }
      },
      rename: async (from, to) => {
        call(`rename ${short(from)} ${short(to)}`)
        await promises.rename(from, to)
      },
    },
  }
}

const FILE = 'segments/7/1.parquet'
const ORDER = ['sync segments', 'write', `sync ${FILE}.tmp`, `rename ${FILE}.tmp ${FILE}`, 'sync segments/7']

t.test('a segment is written, synced, named, and its folder synced, in this order', async (t) => {
  const dir = tempDir()
  t.teardown(() => rmSync(dir, { recursive: true }))
  mkdirSync(join(dir, 'segments'))
  const calls: string[] = []
  const write = async (path: string) => {
    calls.push('write')
    writeFileSync(path, 'rows')
  }
  t.equal(await writeSegmentFile(dir, FILE, write, recording(dir, calls)), 4)
  t.same(calls, ORDER)
  calls.length = 0
  await writeSegmentFile(dir, 'segments/7/2.parquet', write, recording(dir, calls))
  t.equal(calls[0], ORDER[0], 'the name of the folder is synced again: whoever made it may have been killed before')
  t.equal(readFileSync(join(dir, FILE), 'utf8'), 'rows')
})

t.test('a segment of which any step failed is not there', async (t) => {
  for (const fail of ORDER.slice(2)) {
    const dir = tempDir()
    mkdirSync(join(dir, 'segments'))
    const write = async (path: string) => writeFileSync(path, 'rows')
    await t.rejects(writeSegmentFile(dir, FILE, write, recording(dir, [], fail)), { code: 'EIO' }, fail)
    t.same(readdirSync(join(dir, 'segments', '7')), [])
    rmSync(dir, { recursive: true })
  }
})

t.test('files that are written together sync their folder once, when all have their names', async (t) => {
  const dir = tempDir()
  t.teardown(() => rmSync(dir, { recursive: true }))
  const calls: string[] = []
  const files = new SegmentFiles(dir, recording(dir, calls))
  const write = async (path: string) => writeFileSync(path, 'rows')
  const names = Array.from({ length: 20 }, (_, i) => `segments/${i % 2}/${i}.parquet`)
  t.same(await Promise.all(names.map((name) => files.write(name, write))), new Array(20).fill(4))
  for (const name of names) {
    const synced = calls.indexOf(`sync ${name}.tmp`)
    t.ok(synced >= 0 && synced < calls.indexOf(`rename ${name}.tmp ${name}`), `${name} has its name once it is durable`)
  }
  const before = calls.length
  await files.named()
  t.same(calls.slice(before), ['sync segments/0', 'sync segments/1'])
  t.equal(calls.slice(0, before).filter((call) => call === 'sync segments').length, 2, 'and the name of a new folder once')
  await files.remove()
  t.same(
    [0, 1].flatMap((folder) => readdirSync(join(dir, 'segments', String(folder)))),
    [],
  )
})
