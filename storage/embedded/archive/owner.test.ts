import { randomBytes } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { MapState } from '../../common/map-state.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { claimsIn } from '../testing/archive-claims.ts'
import { answers, archived, COLD, objectsIn, opened, writeDays } from '../testing/archiving.ts'
import { inside } from '../testing/catalog-faults.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, rowsOf, tempDir } from '../testing/harness.ts'
import { ArchivedObjects } from './archived-objects.ts'
import { type Claim, OWNER_KEY, requireOwner } from './owner.ts'

t.setTimeout(300_000)

const ownerIn = (folder: string): string => JSON.parse(readFileSync(join(folder, OWNER_KEY), 'utf8')).database
const idOf = (engine: EmbeddedEngine) => inside(engine).catalog.identity()

t.test('a store is of the database that marked it first', async (t) => {
  const [folder, tempPath] = [tempDir(), tempDir()]
  const puts: string[] = []
  const store = folderStore(folder, false, (operation, key) => void (operation === 'put' && puts.push(key)))
  const kept = new Map<string, { claim: Claim }>()
  const ask = (id: string, more: { parent?: string; named?: boolean; takeOverFrom?: string } = {}) => {
    const claim = kept.get(id) ?? { claim: {} }
    kept.set(id, claim)
    const { parent, named = false, takeOverFrom = '' } = more
    return requireOwner({
      store,
      fs: realFileSystem,
      scratch: join(tempPath, 'mark'),
      identity: { id, ...(parent === undefined ? {} : { parent }) },
      named,
      known: async () => [],
      takeOverFrom,
      ...claimsIn(claim),
    })
  }
  await t.rejects(ask('b', { parent: 'a', named: true }), { code: 'CONFLICT' }, 'an older server made no mark, but the objects are the parent’s')
  t.same(puts, [])
  await ask('a')
  t.equal(ownerIn(folder), 'a')
  await ask('a')
  t.same(puts, [OWNER_KEY, OWNER_KEY], 'once by each process')
  await t.rejects(ask('b'), { code: 'CONFLICT', message: /belongs to database a, and this is database b; .*take_over_from to "a"/ })
  await t.rejects(ask('b', { parent: 'a' }), { message: /database a, from whose backup this one was restored/ })
  await t.rejects(ask('b', { takeOverFrom: 'c' }), { code: 'CONFLICT' }, 'another one than was meant')
  t.equal(ownerIn(folder), 'a')
  await ask('b', { takeOverFrom: 'a' })
  t.equal(ownerIn(folder), 'b')
  await ask('b', { takeOverFrom: 'a' })
  await t.rejects(ask('a'), { code: 'CONFLICT' }, 'the one that was thought gone')
  for (const bad of ['', '{', '[]', '{"database":1}', 'null']) {
    writeFileSync(join(folder, OWNER_KEY), bad)
    await t.rejects(ask('b'), { code: 'CONFLICT', message: /cannot be understood/ }, bad)
  }
  const get = async (key: string, _: string, maxBytes = 0) => {
    throw new SvcError('DATABASE_ERROR', `"${key}" has more than ${maxBytes} bytes`)
  }
  Object.assign(store, { get })
  await t.rejects(ask('b'), { code: 'CONFLICT', message: /cannot tell whose archive .*more than 65536 bytes; restore it/ })
})

t.test('an empty place is no archive of a database that has archived something: its volume is not mounted', async (t) => {
  const [dir, folder, empty] = [tempDir(), tempDir(), tempDir()]
  let engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  const { id } = await idOf(engine)
  await writeDays(engine, 11, 11)
  await engine.close()
  engine = await opened(dir, folderStore(empty))
  t.match((await engine.archive.run(COLD)).failure, { code: 'CONFLICT', message: /volume is mounted .*take_over_from to "[0-9a-f]{32}"/ })
  await engine.drop('', 'cpu', { final: true })
  await engine.tidy()
  await engine.close()
  t.same(readdirSync(empty), [], 'nothing is written there')
  engine = await opened(dir, folderStore(folder))
  t.equal((await engine.archive.run(COLD)).failure, undefined)
  t.same(objectsIn(folder), [], 'what was dropped meanwhile goes when the volume is there again')
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  t.equal((await archived(engine)).objects, 3)
  await engine.close()
  engine = await opened(dir, undefined)
  engine.archive.attach(folderStore(empty), id)
  await writeDays(engine, 11, 11)
  t.equal((await archived(engine)).objects, 1, 'on purpose')
  t.equal(ownerIn(empty), id)
  await closeAndRemove(engine, dir, folder, empty)
})

t.test('of two that mark a store at one time the one whose mark is there has it', async (t) => {
  const [folder, tempPath] = [tempDir(), tempDir()]
  const store = folderStore(folder)
  const late: typeof store = {
    ...store,
    async put(key, from) {
      await store.put(key, from)
      writeFileSync(join(folder, OWNER_KEY), JSON.stringify({ database: 'other' }))
    },
  }
  const alone = { fs: realFileSystem, scratch: join(tempPath, 'mark'), identity: { id: 'a' }, named: false, known: async () => [], takeOverFrom: '' }
  const options = { ...alone, ...claimsIn({ claim: {} }) }
  await t.rejects(requireOwner({ ...options, store: late }), { code: 'CONFLICT', message: /belongs to database other/ })
})

t.test('a mark that a store does not show at once is nobody else’s, and is found by the next run', async (t) => {
  const store = folderStore(tempDir())
  let late = true
  const get: typeof store.get = (key, ...rest) => (late ? Promise.reject(new SvcError('NOT_FOUND', `there is no "${key}"`)) : store.get(key, ...rest))
  const parts = { fs: realFileSystem, scratch: join(tempDir(), 'mark'), identity: { id: 'a' }, named: false, known: async () => [], takeOverFrom: '' }
  const kept = { claim: {} }
  const ask = () => requireOwner({ ...parts, store: { ...store, get }, ...claimsIn(kept) })
  await t.rejects(ask(), { code: 'CONFLICT', message: /"svc-owner.json" was there a moment ago and is not found now.*does not show at once/ })
  late = false
  t.type(await ask(), 'string')
})

t.test('several ask at the same time', async (t) => {
  const [folder, tempPath] = [tempDir(), tempDir()]
  const slow = folderStore(folder, false, () => new Promise((resolve) => setImmediate(resolve)))
  const options = {
    fs: realFileSystem,
    paths: { temp: tempPath },
    identity: async () => ({ id: 'a' }),
    segments: { all: () => [] },
    claims: new MapState(),
    random: randomBytes,
    ledger: { keys: async () => [] },
  }
  const objects = new ArchivedObjects(options as unknown as ConstructorParameters<typeof ArchivedObjects>[0])
  await objects.requireOwner(slow)
  await Promise.all(Array.from({ length: 20 }, () => objects.requireOwner(slow)))
  t.same(readdirSync(tempPath), [], 'no file stays')
})

t.test('a store that fails is nobody’s and is not marked', async (t) => {
  const [folder, tempPath] = [tempDir(), tempDir()]
  const store = folderStore(folder, false, (operation) => {
    if (operation === 'get') throw new Error('away')
  })
  await t.rejects(
    requireOwner({
      ...{ store, fs: realFileSystem, scratch: join(tempPath, 'mark'), identity: { id: 'a' }, named: false, known: async () => [], takeOverFrom: '' },
      ...claimsIn({ claim: {} }),
    }),
    /away/,
  )
  t.throws(() => ownerIn(folder))
})

t.test('a database has one id, and what is restored from its backup another, which remembers it', async (t) => {
  const [dir, other] = [tempDir(), tempDir()]
  let engine = await opened(dir, undefined)
  const { id, parent } = await idOf(engine)
  t.match(id, /^[0-9a-f]{32}$/)
  t.equal(parent, undefined)
  await engine.close()
  engine = await opened(dir, undefined)
  t.equal((await idOf(engine)).id, id)
  await engine.backup.create(join(other, 'backup'))
  for (const name of ['one', 'two']) await engine.backup.restore(join(other, 'backup'), join(other, name))
  const ids = new Set([id])
  for (const name of ['one', 'two']) {
    const restored = await opened(join(other, name), undefined)
    const identity = await idOf(restored)
    t.equal(identity.parent, id)
    ids.add(identity.id)
    await restored.close()
  }
  t.equal(ids.size, 3)
  await closeAndRemove(engine, dir, other)
})

t.test('what is restored from a backup made during a run reads the archive, and removes nothing that was committed later', async (t) => {
  const [dir, folder, other] = [tempDir(), tempDir(), tempDir()]
  const backup = join(other, 'backup')
  let during: Promise<unknown> | undefined
  const engine = await opened(
    dir,
    folderStore(folder, false, async (operation, key) => {
      // The object is noted and not committed yet.
      if (operation === 'put' && key !== OWNER_KEY) during ??= engine.backup.create(backup)
      await during
    }),
  )
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  const before = await answers(engine)
  await archived(engine)
  t.not(during, undefined)
  const objects = objectsIn(folder)
  t.equal(objects.length, 3)
  await engine.backup.restore(backup, join(other, 'restored'))
  const clone = await opened(join(other, 'restored'), folderStore(folder))
  t.match((await clone.archive.run(COLD)).failure, { code: 'CONFLICT', message: /from whose backup this one was restored/ })
  await clone.drop('', 'cpu', { final: true })
  await clone.tidy()
  await clone.close()
  t.same(objectsIn(folder), objects, 'neither what was being written nor what the clone dropped')
  t.same(await answers(engine), before)
  await closeAndRemove(engine, dir)
  // The first database is gone: another clone goes on in its place.
  const gone = ownerIn(folder)
  const heirs = await opened(tempDir(), undefined)
  await heirs.backup.restore(backup, join(other, 'heir'))
  await heirs.close()
  const heir = await opened(join(other, 'heir'), undefined)
  heir.archive.attach(folderStore(folder), gone)
  const rows = (await rowsOf(heir, 'cpu')).length
  await archived(heir)
  t.equal((await rowsOf(heir, 'cpu')).length, rows)
  t.equal(ownerIn(folder), (await idOf(heir)).id)
  await closeAndRemove(heir, folder, other)
})

t.test('a restored database reads what was archived before its backup, from the store or a copy, and archives to the copy', async (t) => {
  const [dir, folder, other] = [tempDir(), tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  const before = await answers(engine)
  await engine.backup.create(join(other, 'backup'))
  await engine.backup.restore(join(other, 'backup'), join(other, 'restored'))
  const { id } = await idOf(engine)
  cpSync(folder, join(other, 'copy'), { recursive: true })
  const clone = await opened(join(other, 'restored'), undefined)
  clone.archive.attach(folderStore(join(other, 'copy')), id)
  t.same(await answers(clone), before)
  await writeDays(clone, 13, 13)
  t.equal((await archived(clone)).objects, 1)
  t.equal(objectsIn(folder).length, 3)
  t.equal(ownerIn(folder), id)
  await closeAndRemove(clone)
  await closeAndRemove(engine, dir, folder, other)
})
