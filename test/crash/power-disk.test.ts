/** The disk that forgets: what a power cut may take, and what it may not. */
import t from 'tap'
import { Random } from '../../storage/conformance/random.ts'
import { type DirectoryNode, type FileNode, type Node, PowerDisk, SECTOR } from './power-disk.ts'

const SEEDS = 200
const bytes = (length: number, value: number): Uint8Array => new Uint8Array(length).fill(value)
const file = (node: Node | undefined): FileNode => node as FileNode
const directory = (node: Node | undefined): DirectoryNode => node as DirectoryNode

/** What is left of a disk after each of many cuts, as texts, each once. */
function outcomes(fill: (disk: PowerDisk) => void, look: (disk: PowerDisk) => string): string[] {
  const found = new Set<string>()
  for (let seed = 0; seed < SEEDS; seed++) {
    const disk = new PowerDisk()
    fill(disk)
    disk.cut(new Random(seed))
    found.add(look(disk))
  }
  return [...found].sort()
}

const names = (disk: PowerDisk): string => [...disk.root.entries.keys()].sort().join(' ')
/** Each sector by its first byte. */
function sectors(disk: PowerDisk): string {
  const node = file(disk.root.entries.get('f'))
  return Array.from({ length: Math.ceil(node.size / SECTOR) }, (_, i) => node.read(i * SECTOR, 1)[0]).join('')
}
function durable(disk: PowerDisk, ...writes: [offset: number, length: number, value: number][]): FileNode {
  const node = disk.createFile(disk.root, 'f')
  for (const [offset, length, value] of writes) node.write(offset, bytes(length, value))
  node.sync()
  disk.root.sync()
  return node
}

t.test('what was synced stays', async (t) => {
  t.same(
    outcomes((disk) => void durable(disk, [0, 2 * SECTOR, 1], [SECTOR, SECTOR, 2]), sectors),
    ['12'],
  )
})

t.test('any subset of the sectors written since is there', async (t) => {
  const found = outcomes((disk) => durable(disk, [0, 3 * SECTOR, 1]).write(0, bytes(3 * SECTOR, 2)), sectors)
  t.same(found, ['111', '112', '121', '122', '211', '212', '221', '222'])
})

t.test('a sector is as it was at some moment', async (t) => {
  const fill = (disk: PowerDisk) => {
    const node = durable(disk, [0, SECTOR, 1])
    node.write(0, bytes(SECTOR, 2))
    node.write(0, bytes(SECTOR, 3))
  }
  t.same(outcomes(fill, sectors), ['1', '2', '3'])
})

t.test('what was appended is there, missing, or reads as zeros', async (t) => {
  const found = outcomes((disk) => durable(disk, [0, SECTOR, 1]).write(SECTOR, bytes(2 * SECTOR, 2)), sectors)
  t.same(found, ['1', '100', '102', '120', '122'])
})

t.test('a truncation has happened everywhere or nowhere', async (t) => {
  t.same(
    outcomes((disk) => durable(disk, [0, 3 * SECTOR, 1]).truncate(SECTOR), sectors),
    ['1', '111'],
  )
  const again = (disk: PowerDisk) => {
    const node = durable(disk, [0, 2 * SECTOR, 1])
    node.truncate(0)
    node.write(0, bytes(SECTOR, 2))
  }
  t.same(outcomes(again, sectors), ['', '0', '11', '2'])
})

t.test('syncing a file does not sync its name, syncing a name not the bytes', async (t) => {
  t.same(
    outcomes((disk) => {
      const node = disk.createFile(disk.root, 'f')
      node.write(0, bytes(SECTOR, 1))
      node.sync()
    }, names),
    ['', 'f'],
  )
  t.same(
    outcomes((disk) => {
      disk.createFile(disk.root, 'f').write(0, bytes(SECTOR, 1))
      disk.root.sync()
    }, sectors),
    ['', '0', '1'],
  )
})

t.test('any subset of the names is there; a rename is atomic', async (t) => {
  const two = (disk: PowerDisk) => {
    for (const name of ['a', 'b']) disk.createFile(disk.root, name)
  }
  t.same(outcomes(two, names), ['', 'a', 'a b', 'b'])
  const renamed = (disk: PowerDisk) => {
    disk.createFile(disk.root, 'a')
    disk.root.sync()
    disk.rename(disk.root, 'a', disk.root, 'b')
  }
  t.same(outcomes(renamed, names), ['a', 'b'])
})

t.test('a removed file comes back with its bytes, unless the directory was synced', async (t) => {
  const remove = (disk: PowerDisk) => {
    durable(disk, [0, SECTOR, 1])
    disk.remove(disk.root, 'f')
  }
  t.same(outcomes(remove, names), ['', 'f'])
  t.same(
    outcomes((disk) => {
      remove(disk)
      disk.root.sync()
    }, names),
    [''],
  )
})

t.test('a directory goes with all that was synced in it when the one above was not', async (t) => {
  const fill = (disk: PowerDisk) => {
    const inner = disk.createDirectory(disk.root, 'd')
    disk.createFile(inner, 'f').sync()
    inner.sync()
  }
  t.same(
    outcomes(fill, (disk) => [...(directory(disk.root.entries.get('d'))?.entries.keys() ?? [])].join()),
    ['', 'f'],
  )
})

t.test('a rename from directory to directory is on disk once either is synced', async (t) => {
  for (const synced of ['from', 'to']) {
    const fill = (disk: PowerDisk) => {
      const [from, to] = ['from', 'to'].map((name) => disk.createDirectory(disk.root, name))
      disk.root.sync()
      disk.createFile(from, 'f')
      from.sync()
      disk.rename(from, 'f', to, 'g')
      for (const node of [from, to]) if (disk.root.entries.get(synced) === node) node.sync()
    }
    const look = (disk: PowerDisk) => ['from', 'to'].map((name) => [...directory(disk.root.entries.get(name)).entries.keys()].join()).join('|')
    t.same(outcomes(fill, look), ['|g'], synced)
  }
})
