/** The catalog's checksums: a bit anywhere in data.mdb changes nothing or is reported; entries that are missing or stale are. */

import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { blockKey, Catalog } from './catalog.ts'
import { openLmdb } from './key-value-store.ts'
import { checkPages } from './pages.ts'
import { CatalogStore } from './store.ts'
import { decodeValue, encodeValue } from './value.ts'

t.setTimeout(120_000)

const PLAIN = { encoding: 'binary', overlappingSync: false } as const

async function filled(dir: string): Promise<Map<string, string>> {
  const store = await CatalogStore.open(dir, true)
  const random = new Random(5)
  for (let i = 0; i < 40; i++)
    await store.transaction((tx) => {
      for (let j = 0; j < 8; j++) tx.putJson(`key/${random.below(150)}`, { i, text: 'x'.repeat(random.below(random.chance(0.1) ? 9000 : 200)) })
      tx.remove(`key/${random.below(150)}`)
    })
  const all = contents(store)
  await store.close()
  return all
}

function contents(store: CatalogStore): Map<string, string> {
  return new Map([...store.range({ start: 'key/', end: 'key/\uffff' })].map(({ key, bytes }) => [key, String(bytes)]))
}

async function opened(dir: string): Promise<Map<string, string>> {
  const store = await CatalogStore.open(dir, false)
  const all = contents(store)
  await store.close()
  return all
}

/** Writes past the store. */
async function behind(dir: string, change: (db: ReturnType<typeof open<Buffer, string>>) => Promise<unknown>): Promise<void> {
  const db = open<Buffer, string>({ path: dir, ...PLAIN })
  await change(db)
  await db.close()
}

t.test('a value is bound to its key', async (t) => {
  const stored = encodeValue('a', Buffer.from('value'))
  t.equal(String(decodeValue('a', stored)), 'value')
  t.throws(() => decodeValue('b', stored), { code: 'DATABASE_ERROR', message: /catalog\/data\.mdb.*"b"/ })
  t.throws(() => decodeValue('a', stored.subarray(0, 3)), { code: 'DATABASE_ERROR' })
  for (let bit = 0; bit < stored.length * 8; bit++) {
    const flipped = Buffer.from(stored)
    flipped[bit >> 3] ^= 1 << (bit & 7)
    t.throws(() => decodeValue('a', flipped), /"a"/)
  }
})

t.test('entries that are missing, too many, of another time or another key', async (t) => {
  const dir = temporaryFolder(t)
  const all = await filled(dir)
  const [first, second] = [...all.keys()]
  const changes: [string, RegExp, Parameters<typeof behind>[1]][] = [
    ['missing', /entries/, (db) => db.remove(first)],
    ['too many', /entries/, (db) => db.put('key/new', Buffer.from(encodeValue('key/new', Buffer.from('1'))))],
    ['stale', /meta\/sum/, (db) => db.put(first, Buffer.from(encodeValue(first, Buffer.from('{"old":1}'))))],
    ['of another key', new RegExp(first), (db) => db.put(first, Buffer.from(db.get(second) as Buffer))],
    ['changed', new RegExp(first), (db) => db.put(first, Buffer.from('{"i":1,"text":"not with a checksum"}'))],
    ['without sum', /meta\/sum/, (db) => db.remove('meta/sum')],
    ['without version', /meta\/format/, (db) => db.remove('meta/format')],
  ]
  for (const [what, message, change] of changes) {
    const copy = join(temporaryFolder(t), 'c')
    cpSync(dir, copy, { recursive: true })
    await behind(copy, change)
    await t.rejects(opened(copy), { code: 'DATABASE_ERROR', message }, what)
  }
})

t.test('a transaction whose body throws leaves nothing behind', async (t) => {
  const dir = temporaryFolder(t)
  const all = await filled(dir)
  const store = await CatalogStore.open(dir, false)
  await t.rejects(
    store.transaction((tx) => {
      tx.putJson('key/1', 'half')
      throw new Error('half-way')
    }),
    /half-way/,
  )
  await store.close()
  t.same(await opened(dir), all)
})

t.test('no bit of the file can change what is read', async (t) => {
  const dir = temporaryFolder(t)
  const all = await filled(dir)
  const file = join(dir, 'data.mdb')
  const whole = readFileSync(file)
  const random = new Random(9)
  let refused = 0
  const heads = Array.from({ length: whole.length / 4096 }, (_, page) => page * 4096)
  // In the short form of every byte one bit; the first pages, and some of the others, most of which are room taken beforehand.
  const every = process.env.SVC_LIVES === 'all' ? 1 : 8
  const places = [
    // Trees, last page and transaction of both meta pages.
    ...[0, 4096].flatMap((page) =>
      Array.from({ length: (112 * 8) / every }, (_, i) => i * every + random.below(every)).map((bit) => [page + 48 + (bit >> 3), bit & 7]),
    ),
    ...heads.filter((_, page) => every === 1 || page < 16 || page % 8 === 0).flatMap((at) => [0, 8, 18, 20, 22, 24, 26].map((i) => [at + i, random.below(8)])),
    ...Array.from({ length: 40 }, () => [random.below(whole.length), random.below(8)]),
  ]
  for (const [at, bit] of places) {
    const bytes = Buffer.from(whole)
    bytes[at] ^= 1 << bit
    writeFileSync(file, bytes)
    try {
      for (const _ of checkPages(file));
    } catch (error) {
      if (!(error instanceof RangeError) && error instanceof Error) refused++
      else t.fail(`byte ${at} bit ${bit}: ${String(error)}`)
      continue
    }
    try {
      const found = await opened(dir)
      if (JSON.stringify([...found]) !== JSON.stringify([...all])) t.fail(`byte ${at} bit ${bit} changes what is read`)
    } catch (error) {
      refused++
      t.equal((error as { code?: string }).code, 'DATABASE_ERROR', `byte ${at} bit ${bit}: ${String(error)}`)
    }
  }
  t.ok(refused > places.length / 8, `${refused} of ${places.length} refused`)
})

t.test('a file cut at any page is refused or reads the same', async (t) => {
  const dir = temporaryFolder(t)
  const all = await filled(dir)
  const file = join(dir, 'data.mdb')
  const whole = readFileSync(file)
  let refused = 0
  for (let size = 1; size < whole.length; size += size < 8192 ? 1000 : 4096) {
    writeFileSync(file, whole.subarray(0, size))
    try {
      t.same(await opened(dir), all, `cut to ${size}`)
    } catch (error) {
      refused++
      t.match(error, { code: 'DATABASE_ERROR', message: /catalog\/data\.mdb/ }, `cut to ${size}`)
    }
  }
  t.ok(refused > 4)
})

t.test('a catalog that the system does not let us read is not said to be corrupt', async (t) => {
  const dir = temporaryFolder(t)
  mkdirSync(join(dir, 'catalog', 'data.mdb'), { recursive: true })
  const opening = async () => openLmdb(join(dir, 'catalog'))
  await t.rejects(opening(), { code: 'IO_ERROR', message: /^cannot open the catalog .*EISDIR.*owns the data directory/ })
})

t.test('a lock file that cannot be opened for writing is named; LMDB would end the process', async (t) => {
  const dir = temporaryFolder(t)
  mkdirSync(join(dir, 'catalog', 'lock.mdb'), { recursive: true })
  const opening = async () => openLmdb(join(dir, 'catalog'))
  await t.rejects(opening(), { code: 'IO_ERROR', message: /^cannot open the catalog .*EISDIR.*lock\.mdb.*owns the data directory/ })
})

/** As LMDB-js encodes what it is given, which of 64 characters and more it does not escape. */
const RAW = { encoding: 'binary', overlappingSync: false, eventTurnBatching: false, noMemInit: true, maxDbs: 1 } as const
const ESCAPABLE = ['\0', '\u0001', '\u0002', '\u0003', '\u0004', '\u0005', '\u001b', '\u001c', 'ä', '\ufeff', '😀']

t.test('keys with any character are what they were, at every length', async (t) => {
  const dir = temporaryFolder(t)
  const keys = ESCAPABLE.flatMap((each) => [0, 30, 61, 62, 63, 64, 65, 900].map((length) => `key/${'k'.repeat(length)}${each}${each}end`)).concat(ESCAPABLE)
  const store = await CatalogStore.open(dir, true)
  await store.transaction((tx) => {
    for (const key of keys) tx.putJson(key, key)
  })
  for (let lives = 0; lives < 2; lives++) {
    const again = lives === 0 ? store : await CatalogStore.open(dir, false)
    t.same(
      keys.filter((key) => again.getJson(key) !== key),
      [],
    )
    const under = [...again.range({ start: 'key/', end: 'key0' })].map(({ key }) => key)
    t.same(
      under,
      keys.filter((key) => key.startsWith('key/')).toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
      'in the order of their UTF-8',
    )
    await again.close()
  }
  await t.rejects(
    CatalogStore.open(dir, false).then(async (last) => {
      try {
        await last.transaction((tx) => tx.putJson(`${'k'.repeat(1000)}${'\u0002'.repeat(500)}`, 1))
      } finally {
        await last.close()
      }
    }),
    { code: 'INVALID_REQUEST', message: /more than 1900 bytes/ },
  )
})

t.test('catalogs whose long keys were not escaped are opened, and their entries found', async (t) => {
  const dir = temporaryFolder(t)
  const entries = new Map(['\u0001', '\u0003'].flatMap((each) => [1, 40, 70, 500].map((length) => [`state/one/n${each}${'a'.repeat(length)}`, { length }])))
  const made = await CatalogStore.open(dir, true)
  await made.transaction((tx) => {
    for (const [key, value] of entries) tx.putJson(key, value)
  })
  await made.close()
  const db = open<Buffer, string | Buffer>({ path: dir, ...RAW })
  for (const key of entries.keys()) {
    if (key.length < 64) continue
    const escaped = Buffer.from(key.replaceAll(key[11], `\u0004${key[11]}`))
    await db.put(key, db.get(escaped) as Buffer)
    await db.remove(escaped)
  }
  t.ok(
    [...db.getKeys()].some((key) => typeof key !== 'string'),
    'what LMDB-js then makes of them',
  )
  await db.close()
  for (let lives = 0; lives < 2; lives++) {
    const store = await CatalogStore.open(dir, false)
    for (const [key, value] of entries) t.same(store.getJson(key), value, JSON.stringify(key.slice(0, 14)))
    t.equal([...store.range({ start: 'state/one/n\u0001', end: 'state/one/n\u0002' })].length, 4)
    await store.close()
  }
})

t.test('what is said of a segment that is gone brings no entry back', async (t) => {
  const catalog = await Catalog.open(temporaryFolder(t), true)
  await catalog.amendSegment(7, { crc: 1 })
  t.same(catalog.segments(), [])
  await catalog.store.transaction((tx) => tx.putJson(blockKey('segment', 7), { id: 7, crc: 1 }))
  await catalog.amendSegment(7, { crc: 2 })
  t.match(catalog.segments(), [{ id: 7, crc: 2 }])
  await catalog.removeSegments([7])
  await catalog.amendSegment(7, { crc: 3 })
  t.same(catalog.segments(), [])
  await catalog.close()
})

t.test('pages are looked at in slices where others are served meanwhile', async (t) => {
  const dir = temporaryFolder(t)
  const all = await filled(dir)
  const pages = [...checkPages(join(dir, 'data.mdb'))].length
  t.ok(pages > 6, `${pages} pages`)
  let turns = 0
  const slices = {
    size: 3,
    async next() {
      turns++
    },
  }
  const db = await openLmdb(dir, slices)
  await db.close()
  t.equal(turns, Math.floor(pages / 3))
  t.same(await opened(dir), all)
  const whole = readFileSync(join(dir, 'data.mdb'))
  whole[48] ^= 1
  writeFileSync(join(dir, 'data.mdb'), whole)
  await t.rejects(async () => openLmdb(dir, slices), { code: 'DATABASE_ERROR', message: /catalog\/data\.mdb/ })
})
