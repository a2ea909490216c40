/** Copies of one data directory at one store: one of them has it, the others say so and harm nothing; and one that is alone always gets on, wherever it was killed. */
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ObjectStore } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { claimsIn } from '../testing/archive-claims.ts'
import { answers, archived, COLD, objectsIn, opened, writeDays } from '../testing/archiving.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, tempDir } from '../testing/harness.ts'
import { type Claim, OWNER_KEY, type OwnerMark, requireOwner } from './owner.ts'

t.setTimeout(300_000)

const markIn = (folder: string): OwnerMark => JSON.parse(readFileSync(join(folder, OWNER_KEY), 'utf8'))

t.test('a copy of a data directory removes nothing that the other has, until it is told that the other is gone', async (t) => {
  const [dir, copy, folder] = [tempDir(), join(tempDir(), 'copy'), tempDir()]
  let engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  await engine.close()
  cpSync(dir, copy, { recursive: true })
  engine = await opened(dir, folderStore(folder))
  t.equal((await engine.archive.run(COLD)).failure, undefined)
  const before = await answers(engine)
  const objects = objectsIn(folder)

  let clone = await opened(copy, folderStore(folder))
  t.match((await clone.archive.run(COLD)).failure, {
    code: 'CONFLICT',
    message: new RegExp(`another copy of this data directory has written there since \\(token ${markIn(folder).token}\\).*take_over_from to "`),
  })
  t.same(await answers(clone), before, 'it reads')
  await clone.drop('', 'cpu', { final: true })
  await clone.tidy()
  await clone.close()
  t.same(objectsIn(folder), objects)
  t.same(await answers(engine), before)

  // The other way round, while the first one runs.
  const { token } = markIn(folder)
  await writeDays(engine, 11, 11)
  t.equal((await archived(engine)).objects, 1, 'the first has the store still')
  clone = await opened(copy, undefined)
  clone.archive.attach(folderStore(folder), token as string)
  t.equal((await clone.archive.run(COLD)).failure, undefined, 'told so, the copy has it')
  t.match((await engine.archive.run(COLD)).failure, { code: 'CONFLICT', message: /another copy of this data directory/ })
  await closeAndRemove(clone)
  await closeAndRemove(engine, dir, folder)
})

t.test('one that is stopped and moved, or started again, has its store as before', async (t) => {
  const [dir, moved, folder] = [tempDir(), join(tempDir(), 'moved'), tempDir()]
  for (let life = 0; life < 3; life++) {
    const engine = await opened(dir, folderStore(folder))
    await writeDays(engine, 20 - life, 20 - life)
    t.equal((await engine.archive.run(COLD)).failure, undefined)
    t.equal((await engine.archive.run(COLD)).failure, undefined)
    await engine.close()
  }
  cpSync(dir, moved, { recursive: true })
  const engine = await opened(moved, folderStore(folder))
  t.equal((await engine.archive.run(COLD)).failure, undefined)
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('svc-')),
    [OWNER_KEY],
    'no claim is left',
  )
  await closeAndRemove(engine, dir, folder)
})

interface Copy {
  kept: { claim: Claim }
  held: string | undefined
}

/** @param chance that a call is the last of its process: before it, or after it has happened. */
function world(seed: number, chance: number, conditional: boolean) {
  const random = seeded(seed)
  const [folder, tempPath] = [tempDir(), tempDir()]
  let quiet = false
  const strikes = (): boolean => !quiet && random() < chance
  const plain = folderStore(folder)
  const dies = <A extends unknown[], R>(call: (...args: A) => Promise<R>) => {
    return async (...args: A): Promise<R> => {
      if (strikes()) throw new Error('killed before')
      // Others run here.
      await new Promise((resolve) => setImmediate(resolve))
      const result = await call(...args)
      if (strikes()) throw new Error('killed after')
      return result
    }
  }
  const create = plain.create as NonNullable<ObjectStore['create']>
  const store: ObjectStore = {
    ...plain,
    put: dies(plain.put),
    get: dies(plain.get),
    remove: dies(plain.remove),
    ...(conditional ? { create: dies(create) } : { create: undefined as never }),
  }
  let scratch = 0
  const ask = async (copy: Copy): Promise<string> => {
    const fail = (): void => {
      if (strikes()) throw new Error('killed')
    }
    const path = join(tempPath, String(scratch++))
    const mine = { ...claimsIn(copy.kept, fail), held: copy.held }
    return (copy.held = await requireOwner({
      ...{ store, fs: realFileSystem, scratch: path, identity: { id: 'a' }, named: false, known: async () => [], takeOverFrom: '', ...mine },
    }))
  }
  /** Nothing fails. */
  const calm = async <T>(body: () => Promise<T>): Promise<T> => {
    quiet = true
    try {
      return await body()
    } finally {
      quiet = false
    }
  }
  return { random, folder, ask, calm }
}

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1e6)

for (const conditional of [true, false])
  t.test(`one that is alone gets on, wherever it was killed; ${conditional ? 'with' : 'without'} conditional writes, seed ${SEED}`, async (t) => {
    for (let run = 0; run < 20; run++) {
      const { ask, calm } = world(SEED + run, 0.15, conditional)
      const one: Copy = { kept: { claim: {} }, held: undefined }
      for (let life = 0; life < 6; life++) {
        one.held = undefined
        await ask(one).catch((error: Error) => {
          if (!error.message.startsWith('killed')) throw new Error(`seed ${SEED + run}, life ${life}: ${error.message}`)
        })
      }
      one.held = undefined
      const got = await calm(() => ask(one))
      if ((await calm(() => ask(one))) !== got) throw new Error(`seed ${SEED + run}: it has what it had no more`)
    }
    t.pass('each run')
  })

for (const conditional of [true, false])
  t.test(`of copies made at any time one has the store; ${conditional ? 'with' : 'without'} conditional writes, seed ${SEED}`, async (t) => {
    let both = 0
    for (let run = 0; run < 40; run++) {
      const { ask, calm, random, folder } = world(SEED + run, random4(run), conditional)
      const one: Copy = { kept: { claim: {} }, held: undefined }
      for (let life = 0; life < 3; life++) {
        one.held = undefined
        await ask(one).catch(() => {})
      }
      const copies: Copy[] = [one, ...Array.from({ length: 2 }, () => ({ kept: { claim: { ...one.kept.claim } }, held: undefined }))]
      // It goes on, or begins anew with the others.
      if (random() < 0.5) one.held = undefined
      const begin = one.held === undefined && one.kept.claim.next === undefined
      // At one time.
      const got = await calm(() => Promise.allSettled(copies.map(ask)))
      const first = got.filter(({ status }) => status === 'fulfilled').length
      if (conditional && begin && first > 1) both++
      // From the next pass on.
      const later = await calm(async () => {
        const settled: boolean[] = []
        for (const copy of copies)
          settled.push(
            await ask(copy).then(
              () => true,
              () => false,
            ),
          )
        return settled
      })
      const has = later.filter(Boolean).length
      if (has > 1) throw new Error(`seed ${SEED + run}: ${has} of 3 have the store, ${JSON.stringify(copies)}`)
      if (has === 1 && copies[later.indexOf(true)].held !== markIn(folder).token) throw new Error(`seed ${SEED + run}: the mark is another’s`)
      if (has === 0 && !existsSync(join(folder, OWNER_KEY))) throw new Error(`seed ${SEED + run}: nobody has marked it`)
    }
    t.equal(both, 0, 'never two at one time where the store creates only what is not there, and no claim was broken off')
  })

function random4(run: number): number {
  return [0, 0.05, 0.15, 0.3][run % 4]
}
