import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { MapState } from '../../storage/common/map-state.ts'
import { type FileCalls, realFileCalls } from '../lib/files/index.ts'
import { importState, type LegacyFile } from './state-import.ts'

function legacyIn(t: Test): { folder: string; path: string; file: LegacyFile } {
  const folder = mkdtempSync(join(tmpdir(), 'svc-import-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'words.json')
  const read: LegacyFile['read'] = (text) => {
    const words = JSON.parse(text) as string[]
    return (tx) => {
      for (const word of words) tx.put(`word/${word}`, true)
    }
  }
  return { folder, path, file: { path, maxBytes: 1000, what: 'word file', read } }
}

const words = async (state: MapState) => (await state.list({ prefix: 'word/' })).map(({ key }) => key.slice(5))

t.test('a file is imported once, and stays under another name', async (t) => {
  const { folder, path, file } = legacyIn(t)
  writeFileSync(path, '["a","b"]')
  const state = new MapState()
  t.equal(await importState(state, file), true)
  t.same(await words(state), ['a', 'b'])
  t.same(readdirSync(folder), ['words.json.imported'])
  t.equal(await importState(state, file), false)
  await state.transaction((tx) => tx.delete('word/a'))
  renameSync(`${path}.imported`, path)
  t.equal(await importState(state, file), false, 'a power cut brought the name back')
  t.same(await words(state), ['b'], 'what was removed since is not')
  t.same(readdirSync(folder), ['words.json.imported'])
})

t.test('another file than the one that was imported is refused', async (t) => {
  const { folder, path, file } = legacyIn(t)
  const fresh = new MapState()
  t.equal(await importState(fresh, file), false)
  const upgraded = new MapState()
  writeFileSync(path, '["a"]')
  await importState(upgraded, file)
  for (const state of [fresh, upgraded]) {
    writeFileSync(path, '["a","c"]')
    await t.rejects(importState(state, file), {
      code: 'CONFIG_ERROR',
      message: /^cannot import word file ".*words.json": this database has a state of its own/,
    })
    t.equal(readFileSync(path, 'utf8'), '["a","c"]')
    t.notOk((await words(state)).includes('c'))
  }
  t.same(readdirSync(folder).sort(), ['words.json', 'words.json.imported'])
})

t.test('one that cannot be read changes nothing', async (t) => {
  const { folder, path, file } = legacyIn(t)
  const state = new MapState()
  for (const text of ['["a"', `["${'x'.repeat(1000)}"]`]) {
    writeFileSync(path, text)
    await t.rejects(importState(state, file), { code: 'CONFIG_ERROR', message: /^cannot import word file ".*words.json": / })
    t.same(await state.list(), [])
    t.same(readdirSync(folder), ['words.json'])
  }
  writeFileSync(path, '["a"]')
  t.equal(await importState(state, file), true, 'and can be put right')
})

t.test('cut off at any step, the next start finishes it', async (t) => {
  for (const step of ['commit', 'rename', 'sync']) {
    const { folder, path, file } = legacyIn(t)
    writeFileSync(path, '["a"]')
    const state = new MapState()
    const order: string[] = []
    const say = (what: string): void => {
      order.push(what)
      if (what === step) throw new Error(`${what} is cut off`)
    }
    const commit = state.transaction.bind(state)
    state.transaction = async (body) => {
      say('commit')
      return commit(body)
    }
    const calls: FileCalls = {
      ...realFileCalls,
      async rename(from, to) {
        say('rename')
        await realFileCalls.rename(from, to)
      },
      open: async () => ({ sync: async () => say('sync'), close: async () => {}, writeFile: async () => {} }),
    }
    await t.rejects(importState(state, file, calls), { message: `${step} is cut off` })
    t.same(order, ['commit', 'rename', 'sync'].slice(0, order.length))
    state.transaction = commit
    await importState(state, file)
    t.same(await words(state), ['a'], step)
    t.same(readdirSync(folder), ['words.json.imported'])
  }
})

t.test('without a directory of its own there is nothing to import', async (t) => {
  const { file } = legacyIn(t)
  t.equal(await importState(new MapState(), { ...file, path: undefined }), false)
})
