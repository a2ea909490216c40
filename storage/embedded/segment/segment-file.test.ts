import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { tempDir } from '../testing/harness.ts'
import { writeSegmentFile } from './segment-file.ts'

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
