/** Local copies of archived objects stay within their bound, also when those who asked for them have gone. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { folderStore } from '../testing/folder-store.ts'
import { tempDir } from '../testing/harness.ts'
import { ObjectCache } from './object-cache.ts'

const BYTES = 1000

/** A store whose answers wait for `open`, and a cache with room for three of its objects. */
function slowStore(t: Test, names: readonly string[]) {
  const [folder, copies] = [tempDir(), join(tempDir(), 'copies')]
  t.teardown(() => [folder, copies].map((path) => rmSync(path, { recursive: true, force: true })))
  const objects = names.map((name, i) => {
    const bytes = Buffer.alloc(BYTES, i + 1)
    const file = `d/${name}.parquet`
    mkdirSync(join(folder, 'd'), { recursive: true })
    writeFileSync(join(folder, file), bytes)
    return { file, bytes: BYTES, crc: crc32(bytes) }
  })
  const gates = new Map<string, PromiseWithResolvers<void>>()
  const gateOf = (key: string): PromiseWithResolvers<void> => gates.get(key) ?? gates.set(key, Promise.withResolvers()).get(key)!
  const store = folderStore(folder, true, (operation, key) => (operation === 'get' ? gateOf(key).promise : undefined))
  const cache = new ObjectCache(store, copies, 3 * BYTES, true, realFileSystem)
  const there = (): string[] => readdirSync(copies, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'))
  return { objects, cache, there, open: (n: number) => gateOf(objects[n].file).resolve() }
}

t.test('a copy that is under way takes its room, though nobody waits for it any more', async (t) => {
  const { objects, cache, there, open } = slowStore(t, ['a', 'b', 'c', 'd'])
  const left = cache.fetch(1, objects.slice(0, 3))
  cache.release(1)
  await t.rejects(cache.fetch(2, [objects[3]]), { code: 'OVERLOADED', message: /segment_cache_size = 3000 is all there is/ })
  cache.release(2)
  for (const n of [0, 1, 2]) open(n)
  await left
  t.same(there().sort(), ['d/a.parquet', 'd/b.parquet', 'd/c.parquet'])
  open(3)
  await cache.fetch(3, [objects[3]])
  t.same(there().length, 3, 'it has made room')
})

t.test('a copy of what has gone meanwhile does not stay', async (t) => {
  const { objects, cache, there, open } = slowStore(t, ['a', 'b'])
  const left = cache.fetch(1, objects)
  cache.release(1)
  cache.forget(objects[0].file)
  open(0)
  open(1)
  await left
  t.same(there(), ['d/b.parquet'])
})

t.test('a copy may take the room that was made for it, and no more', async (t) => {
  const [folder, copies] = [tempDir(), join(tempDir(), 'copies')]
  t.teardown(() => [folder, copies].map((path) => rmSync(path, { recursive: true, force: true })))
  const asked: unknown[] = []
  const store = {
    ...folderStore(folder, true),
    async get(key: string, path: string, maxBytes?: number) {
      asked.push([key, maxBytes])
      writeFileSync(path, 'too much')
      throw new SvcError('DATABASE_ERROR', 'it has more')
    },
  }
  const cache = new ObjectCache(store, copies, 3 * BYTES, true, realFileSystem)
  const object = { file: 'd/a.parquet', bytes: BYTES, crc: 1 }
  await t.rejects(cache.fetch(1, [object]), { code: 'DATABASE_ERROR', message: /"d\/a.parquet": it has more; restore the object/ })
  t.same(asked, [['d/a.parquet', BYTES]])
  t.same(readdirSync(join(copies, 'd')), [])
})
