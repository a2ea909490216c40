import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { folderStore } from '../testing/folder-store.ts'
import { tempDir } from '../testing/harness.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Ledger } from './ledger.ts'
import { storeObject } from './store-object.ts'

t.test('an object is noted before it is stored, and looked at afterwards', async (t) => {
  for (const remote of [false, true]) {
    const [dir, folder] = [tempDir(), tempDir()]
    const calls: string[] = []
    const ledger = { note: async (keys: readonly string[]) => void calls.push(`note ${keys.length}`) } as unknown as Ledger
    const store = folderStore(folder, remote, (operation) => void calls.push(operation))
    const path = join(dir, 'object')
    writeFileSync(path, 'rows')
    const written = { id: 1, table: 1, bytes: 4, crc: crc32('rows'), file: '' } as SegmentMeta
    const stored = await storeObject(store, ledger, written, { path, day: 0n, partition: { shared: 'v' } }, realFileSystem)
    t.match(stored, { id: 1, archived: true, file: /^shared=v\/date=1970-01-01\/0000000001-/ })
    t.same(calls, ['note 1', 'put', 'size', ...(remote ? ['get'] : [])])
    const refusing = { note: () => Promise.reject(new Error('no space')) } as unknown as Ledger
    calls.length = 0
    await t.rejects(storeObject(store, refusing, written, { path, day: 0n, partition: { shared: 'v' } }, realFileSystem), /no space/)
    t.same(calls, [], 'nothing is stored that nobody would ever remove')
    for (const one of [dir, folder]) rmSync(one, { recursive: true })
  }
})
