import t from 'tap'
import { Disk } from './disk.ts'
import { Random } from './random.ts'

t.test('a synced name stays, though one before it was moved to a directory that is not synced', async (t) => {
  for (let seed = 0; seed < 200; seed++) {
    const disk = new Disk(new Random(seed))
    const sync = (path: string): void => disk.syncDirectory(disk.directory(path, 'test'))
    const make = (path: string): void => disk.close(disk.open(path, 'wx'))
    disk.mkdir('/a')
    make('/a/file')
    sync('/a')
    disk.mkdir('/a/former')
    make('/a/new')
    disk.rename('/a/file', '/a/former/file')
    sync('/a')
    disk.rename('/a/new', '/a/file')
    sync('/a')
    disk.powerCut()
    if (disk.lookup('/a/file') === undefined) return t.fail(`seed ${seed}: the newer name is gone`)
    if (disk.lookup('/a/former/file') === undefined) return t.fail(`seed ${seed}: the former one is lost`)
  }
  t.pass()
})
