/** A bucket whose answers do not end, or are larger than what was put there. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { FakeBucket } from './fake-bucket.ts'
import { S3Store } from './s3-store.ts'

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

/** A store that answers so, while memory is collected all the time. */
async function storeOf(t: Test, status: number, timeoutMs: number): Promise<S3Store> {
  const fake = await FakeBucket.start()
  fake.instead = (_, response) => void endless(response, status)
  const timer = setInterval(collect, 20)
  t.teardown(async () => {
    clearInterval(timer)
    await fake.stop()
  })
  const remote = { bucket: 'cold', prefix: '', url: `${fake.url}/cold`, region: 'r', accessKeyId: 'id', secretAccessKey: 'key', sessionToken: undefined }
  return new S3Store(remote, timeoutMs)
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
