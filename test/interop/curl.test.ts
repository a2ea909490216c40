/** curl, with what people pipe into it. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { startNode } from './node.ts'

const node = await startNode({ maxBodySize: 4096 })
after(() => node.stop())
const curl = (...args: string[]) => execFileSync('curl', ['-sS', '-w', '%{http_code}', ...args], { encoding: 'utf8' })

test('a file of line protocol, plain and gzipped, to each path', async () => {
  const plain = join(node.folder, 'points.lp')
  writeFileSync(plain, 'file v=1 1700000000000000000\nfile v=2 1700000001000000000\n')
  writeFileSync(`${plain}.gz`, gzipSync('file v=3 1700000002000000000\n'))
  for (const path of ['/write?db=x', '/api/v2/write?org=x&bucket=x', '/api/v1/write/influx']) {
    assert.equal(curl('--data-binary', `@${plain}`, node.url + path), '204')
    assert.equal(curl('--data-binary', `@${plain}.gz`, '-H', 'Content-Encoding: gzip', node.url + path), '204')
  }
  assert.deepEqual(
    (await node.rows('file')).map(({ fields }) => fields.v),
    [1, 2, 3],
  )
})

test('a body above the limit is 413, also when only its content is', () => {
  const large = join(node.folder, 'large')
  writeFileSync(large, 'x v=1\n'.repeat(1000))
  writeFileSync(`${large}.gz`, gzipSync('x v=1\n'.repeat(1000)))
  assert.match(curl('--data-binary', `@${large}`, `${node.url}/write`), /PAYLOAD_TOO_LARGE.*413$/)
  assert.match(curl('--data-binary', `@${large}.gz`, '-H', 'Content-Encoding: gzip', `${node.url}/write`), /PAYLOAD_TOO_LARGE.*413$/)
})

test('CREATE DATABASE as a form', () => {
  assert.equal(curl('--data-urlencode', 'q=CREATE DATABASE "telegraf"', `${node.url}/query`), '{"results":[{"statement_id":0}]}200')
})
