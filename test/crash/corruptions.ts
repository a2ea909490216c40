/** Ways in which a disk, or a person, corrupts the files of a database. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Random } from '../../storage/conformance/random.ts'

export type Part = 'segments' | 'catalog' | 'log' | 'backup'

export interface Corruption {
  part: Part
  name: string
  /** @returns what a message about it must name: one of these. */
  apply(folder: string, random: Random): string[]
}

const PAGE = 4096
const SECTOR = 512
const WAL_HEADER = 8
const FRAME = 16

export function filesBelow(dir: string, end = ''): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(end))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}

const files: Record<Part, (folder: string) => string[]> = {
  segments: (folder) => filesBelow(join(folder, 'data', 'segments'), '.parquet'),
  catalog: (folder) => [join(folder, 'data', 'catalog', 'data.mdb')],
  log: (folder) => filesBelow(join(folder, 'data', 'wal'), '.wal'),
  backup: (folder) => filesBelow(join(folder, 'backup')),
}

const flip = (bytes: Buffer, at: number, random: Random): Buffer => {
  bytes[at] ^= 1 << random.below(8)
  return bytes
}

/** Changes the content of a file of the part; where that is not possible, or changes nothing, a bit is flipped. */
function content(part: Part, name: string, change: (bytes: Buffer, random: Random) => Buffer | undefined, pick = anyOf): Corruption {
  return {
    part,
    name,
    apply(folder, random) {
      const file = pick(files[part](folder), random)
      const before = readFileSync(file)
      const after = change(Buffer.from(before), random)
      writeFileSync(file, after === undefined || after.equals(before) ? flip(before, random.below(before.length), random) : after)
      return [basename(file)]
    },
  }
}

const anyOf = (all: string[], random: Random): string => random.pick(all)
const last = (all: string[]): string => all.at(-1) as string
const notLast = (all: string[], random: Random): string => random.pick(all.slice(0, -1))

/** What can happen to any file. */
function common(part: Part): Corruption[] {
  return [
    content(part, 'bit flipped', (bytes, random) => flip(bytes, random.below(bytes.length), random)),
    content(part, 'two bits flipped', (bytes, random) => flip(flip(bytes, random.below(bytes.length), random), random.below(bytes.length), random)),
    content(part, 'cut anywhere', (bytes, random) => bytes.subarray(0, random.below(bytes.length))),
    content(part, 'cut to nothing', () => Buffer.alloc(0)),
    content(part, 'sector of zeros', (bytes, random) => bytes.fill(0, ...sector(bytes, random))),
    content(part, 'sector of another place', (bytes, random) => {
      const [from, to] = sector(bytes, random)
      bytes.copy(bytes, from, ...(sector(bytes, random).map((at) => Math.min(at, bytes.length - (to - from))) as [number, number]))
      return bytes
    }),
    content(part, 'garbage behind', (bytes, random) =>
      Buffer.concat([bytes, Buffer.from(Array.from({ length: 1 + random.below(600) }, () => random.below(256)))]),
    ),
    {
      part,
      name: 'file gone',
      apply: (folder, random) => {
        const file = anyOf(files[part](folder), random)
        rmSync(file)
        return [basename(file)]
      },
    },
  ]
}

function sector(bytes: Buffer, random: Random): [number, number] {
  const from = random.below(Math.ceil(bytes.length / SECTOR)) * SECTOR
  return [from, Math.min(from + SECTOR, bytes.length)]
}

function swapped(part: Part): Corruption {
  return {
    part,
    name: 'two files swapped',
    apply(folder, random) {
      const all = files[part](folder)
      const a = random.below(all.length)
      const b = (a + 1 + random.below(all.length - 1)) % all.length
      renameSync(all[a], `${all[a]}.x`)
      renameSync(all[b], all[a])
      renameSync(`${all[a]}.x`, all[b])
      return [basename(all[a]), basename(all[b])]
    },
  }
}

/** A page of the catalog with one of these flags, and a place within it. */
function inPage(name: string, flags: number, from: number, to: number): Corruption {
  return content('catalog', name, (bytes, random) => {
    const pages = Array.from({ length: Math.floor(bytes.length / PAGE) }, (_, page) => page * PAGE).filter((at) => bytes.readUInt16LE(at + 18) === flags)
    return pages.length === 0 ? undefined : flip(bytes, random.pick(pages) + from + random.below(to - from), random)
  })
}

/** Where records of a log file begin. */
function frames(bytes: Buffer): number[] {
  const found: number[] = []
  for (let at = WAL_HEADER; at + FRAME <= bytes.length; at += FRAME + bytes.readUInt32LE(at)) found.push(at)
  return found
}

const inFrame = (name: string, at: (length: number, random: Random) => number, pick = anyOf): Corruption =>
  content(
    'log',
    name,
    (bytes, random) => {
      const frame = random.pick(frames(bytes))
      return flip(bytes, frame + at(bytes.readUInt32LE(frame), random), random)
    },
    pick,
  )

const RAW: Corruption[] = [
  ...common('segments'),
  swapped('segments'),
  content('segments', 'bit flipped in the footer', (bytes, random) => flip(bytes, bytes.length - 1 - random.below(Math.min(bytes.length, 400)), random)),
  ...common('catalog'),
  inPage('bit flipped in a meta page', 8, 0, 200),
  inPage("bit flipped in a branch page's head", 1, 0, 64),
  inPage('bit flipped in a branch page', 1, 24, PAGE),
  inPage("bit flipped in a leaf page's head", 2, 0, 80),
  inPage('bit flipped in a leaf page', 2, 24, PAGE),
  inPage('bit flipped in an overflow page', 4, 0, PAGE),
  content('catalog', 'two pages swapped', (bytes, random) => {
    const [a, b] = [0, 1].map(() => random.below(Math.floor(bytes.length / PAGE)) * PAGE)
    const one = Buffer.from(bytes.subarray(a, a + PAGE))
    bytes.copy(bytes, a, b, b + PAGE)
    one.copy(bytes, b)
    return bytes
  }),
  content('catalog', 'cut at a page', (bytes, random) => bytes.subarray(0, random.below(Math.floor(bytes.length / PAGE)) * PAGE)),
  {
    part: 'catalog',
    name: 'folder gone',
    apply: (folder) => {
      rmSync(join(folder, 'data', 'catalog'), { recursive: true })
      return ['data.mdb']
    },
  },
  {
    part: 'catalog',
    name: 'lock file of garbage',
    apply: (folder, random) => {
      const lock = join(folder, 'data', 'catalog', 'lock.mdb')
      writeFileSync(lock, Buffer.from(Array.from({ length: existsSync(lock) ? readFileSync(lock).length : 8192 }, () => random.below(256))))
      return ['lock.mdb', 'data.mdb']
    },
  },
  ...common('log'),
  swapped('log'),
  inFrame("bit flipped in a record's head", (_, random) => random.below(FRAME)),
  inFrame("bit flipped in the last file's heads", (_, random) => random.below(FRAME), last),
  inFrame('bit flipped in a record', (length, random) => FRAME + random.below(length)),
  content('log', 'cut at a record, earlier file', (bytes, random) => bytes.subarray(0, random.pick(frames(bytes))), notLast),
  content('log', 'cut in a record, last file', (bytes, random) => bytes.subarray(0, random.pick(frames(bytes)) + 1 + random.below(FRAME + 8)), last),
  ...common('backup'),
  swapped('backup'),
  content(
    'backup',
    'bit flipped in the manifest',
    (bytes, random) => flip(bytes, random.below(bytes.length), random),
    (all) => all.find((file) => file.endsWith('.json')) as string,
  ),
  {
    part: 'backup',
    name: 'file too many',
    apply: (folder) => {
      writeFileSync(join(folder, 'backup', 'extra'), 'x')
      return ['extra']
    },
  },
]

export const CORRUPTIONS: readonly Corruption[] = RAW
