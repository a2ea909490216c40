/** A bucket whose answers do not end, are larger than what was put there, or lead elsewhere. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { FolderStore } from './folder-store.ts'
import type { Bucket } from './remote.ts'
import { S3Store } from './s3-store.ts'
import { FakeBucket } from './testing-fake-bucket.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-endless-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Sends a part now and then, until the connection is closed. */
async function endless(response: ServerResponse, status: number): Promise<void> {
  response.writeHead(status)
  while (!response.destroyed) {
    response.write(Buffer.alloc(1024, 'x'))
    await setTimeout(5)
  }
}

const bucketOf = (url: string): Bucket => ({
  bucket: 'cold',
  prefix: '',
  url: `${url}/cold`,
  region: 'r',
  accessKeyId: 'id',
  secretAccessKey: 'key',
  sessionToken: undefined,
})

/** A store that answers so, while memory is collected all the time. */
async function storeOf(t: Test, status: number, timeoutMs: number): Promise<S3Store> {
  const fake = await FakeBucket.start()
  fake.instead = (_, response) => void endless(response, status)
  const timer = setInterval(collect, 20)
  t.teardown(async () => {
    clearInterval(timer)
    await fake.stop()
  })
  return new S3Store(bucketOf(fake.url), timeoutMs)
}

t.test('the time limit ends an object that goes on for ever', async (t) => {
  const store = await storeOf(t, 200, 500)
  await t.rejects(store.get('key', join(folderOf(t), 'object')), { code: 'OVERLOADED', message: /cannot read object "key".*timeout/ })
})

t.test('a stop ends an object that goes on for ever', async (t) => {
  const store = await storeOf(t, 200, 600_000)
  const folder = folderOf(t)
  const reading = store.get('key', join(folder, 'object'))
  while (readdirSync(folder).length === 0) await setTimeout(5)
  await setTimeout(100)
  store.close()
  await t.rejects(reading, { code: 'OVERLOADED', message: /the server is stopping/ })
})

t.test('of an error that goes on for ever the begin is enough', async (t) => {
  const store = await storeOf(t, 403, 600_000)
  await t.rejects(store.remove('key'), { code: 'OVERLOADED', message: /status 403/ })
  await t.rejects(store.get('key', join(folderOf(t), 'object')), { code: 'OVERLOADED', message: /status 403/ })
})

t.test('of an object no more is taken than it can have', async (t) => {
  const folder = folderOf(t)
  const store = await storeOf(t, 200, 600_000)
  await t.rejects(store.get('key', join(folder, 'object'), 5000), { code: 'DATABASE_ERROR', message: /"key" in bucket "cold".*more than the 5000 bytes/ })
  t.ok(statSync(join(folder, 'object')).size <= 5000)
  writeFileSync(join(folder, 'key'), 'abc')
  const place = new FolderStore(folder)
  await t.rejects(place.get('key', join(folder, 'copy'), 2), { code: 'DATABASE_ERROR', message: /"key" in folder.*more than the 2 bytes/ })
  t.notOk(existsSync(join(folder, 'copy')))
  await place.get('key', join(folder, 'copy'), 3)
})

t.test('nothing goes where a redirect leads, and nothing from there counts', async (t) => {
  const [fake, elsewhere] = [await FakeBucket.start(), await FakeBucket.start()]
  t.teardown(() => Promise.all([fake.stop(), elsewhere.stop()]))
  let asked = 0
  elsewhere.instead = (_, response) => {
    asked++
    response.end('of another')
  }
  let status = 0
  fake.instead = (_, response) => void response.writeHead(status, { location: `${elsewhere.url}/latest/` }).end()
  const store = new S3Store({ ...bucketOf(fake.url), sessionToken: 'session' }, 10_000)
  const folder = folderOf(t)
  writeFileSync(join(folder, 'key'), 'abc')
  const [from, to] = [join(folder, 'key'), join(folder, 'copy')]
  const ways = [() => store.put('key', from), () => store.create('key', from), () => store.get('key', to), () => store.size('key'), () => store.remove('key')]
  for (status of [301, 302, 303, 307, 308])
    for (const way of ways)
      await t.rejects(way() as Promise<void>, {
        code: 'OVERLOADED',
        message: /status 30\d, a redirect to "http:.*\/latest\/", and redirects are not followed; check/,
      })
  t.equal(asked, 0)
  t.notOk(existsSync(to))
})
