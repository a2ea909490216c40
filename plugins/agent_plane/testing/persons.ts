/** Persons in a life of the plane: they look at the queue, take tasks, give them back, take them from others and decide; and what must hold of tasks. */
import assert from 'node:assert/strict'
import type { StateReader } from 'svcdb'
import { TASK_DECIDED, type Task, type TaskCaller, type TaskDecision } from 'svcdb/agents'
import { canonical } from '../record/canonical.ts'
import { decode } from '../record/record.ts'
import { recordsOf } from '../store/journal.ts'
import { FINAL, type Status } from '../store/runs.ts'
import type { Wait } from '../store/waits.ts'
import { mayDecide } from '../tasks/desk.ts'
import { indexKeys, isPending } from '../tasks/store.ts'
import type { Process, World } from './world.ts'

type Attempt = <T>(process: Process, act: () => Promise<T>) => Promise<T | undefined>

/** Has asked for all runs of a life. */
export const REQUESTER = 'ann'
const PERSONS: readonly TaskCaller[] = [
  { actor: 'bob', basis: 'authenticated', roles: ['desk'] },
  { actor: 'cat', basis: 'authenticated', roles: ['desk', 'lead'] },
  { actor: 'dan', basis: 'authenticated', roles: ['lead'] },
]

/** One of them does something, and asks again where the answer is lost. */
export async function personActs(world: World, any: () => Process, attempt: Attempt): Promise<void> {
  const { random } = world
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]
  const tasks = (await world.disk.list<Task>({ prefix: 'task/' })).map(({ value }) => value).filter((task) => isPending(task) || random() < 0.1)
  if (tasks.length === 0) return
  const task = pick(tasks)
  const person = pick(PERSONS.filter((one) => mayDecide(task, one)))
  if (random() < 0.1)
    await assert.rejects(
      any().desk.decided(task.id, { approved: true, reason: 'my own' }, { ...person, actor: REQUESTER }),
      /does not decide it|dead|the store of the world/,
    )
  const verb = random()
  const process = any()
  if (verb < 0.3) await attempt(process, () => process.desk.claim(task.id, person))
  else if (verb < 0.4) await attempt(process, () => process.desk.release(task.id, person))
  else if (verb < 0.5) await attempt(process, () => process.desk.takeOver(task.id, task.assignee ?? 'bob', person))
  else if (verb < 0.6) await sweep(world, process, attempt)
  else await decide(world, task, person, any, attempt)
}

/** @param due as `Driver.sweep` takes it. */
export async function sweep(world: World, process: Process, attempt: Attempt, due: readonly string[] = []): Promise<void> {
  for (const { action, subject: task } of (await attempt(process, () => process.driver.sweep(due))) ?? []) {
    if (!action.startsWith('task_')) continue
    assert.ok(!world.swept.has(task), `task ${task} is swept once, and now ${action}`)
    world.swept.add(task)
  }
}

/** A run does not wait for what is decided. */
export async function assertNotDecided(run: string, { disk }: World): Promise<void> {
  for (const { value: wait } of await disk.list<Wait>({ prefix: `wait/${run}/` })) {
    if (wait.event?.kind !== TASK_DECIDED) continue
    const task = await disk.get<Task>(`task/${wait.event.correlation[0].value}`)
    assert.equal(task?.decision, undefined, `${run} waits for task ${task?.id}, which is decided`)
    assert.ok(task !== undefined && isPending(task), `${run} waits for task ${task?.id}, which is ${task?.state}`)
  }
}

async function decide(world: World, task: Task, person: TaskCaller, any: () => Process, attempt: Attempt): Promise<void> {
  const said = { approved: world.random() < 0.5, reason: `said ${Math.floor(world.random() * 1e6)}` }
  for (let tries = 0; tries < 3; tries++) {
    const process = any()
    const { failed } = world
    const answer = await attempt(process, () => process.desk.decided(task.id, said, person))
    if (answer !== undefined) world.decided(task.id, answer.decision)
    if (process.alive && world.failed === failed) return
  }
}

/** All that a run waits for is decided. @returns whether there was nothing. */
export async function decideAll(run: string, world: World, process: Process, attempt: Attempt): Promise<boolean> {
  let still = true
  for (const { value: id } of await world.disk.list<string>({ prefix: `task_run/${run}/` })) {
    const task = await attempt(process, () => process.desk.task(id))
    if (task === undefined) return false
    still = false
    const person = PERSONS.find((one) => mayDecide(task, one)) as TaskCaller
    const { assignee: holder } = task
    if (holder !== undefined && holder !== person.actor) await attempt(process, () => process.desk.takeOver(id, holder, person))
    await decide(world, task, person, () => process, attempt)
  }
  return still
}

/** @throws AssertionError saying what does not hold of the tasks. */
export async function judgeTasks(world: World): Promise<number> {
  const { disk } = world
  const tasks = (await disk.list<Task>({ prefix: 'task/' })).map(({ value }) => value)
  const found = (await Promise.all(['task_queue/', 'task_due/', 'task_late/', 'task_run/'].map((prefix) => disk.list<string>({ prefix })))).flat()
  assert.deepEqual(found.map(({ key }) => key).sort(), tasks.flatMap(indexKeys).sort(), 'each task is found where it is to be found, and nowhere else')
  for (const task of tasks) {
    const status = await disk.get<Status>(`status/${task.run}`)
    if (status !== undefined && FINAL.has(status)) assert.ok(!isPending(task), `task ${task.id} of a run that is ${status} is ${task.state}`)
    assert.equal(task.decision !== undefined, task.state === 'completed' || task.state === 'expired', `task ${task.id} is ${task.state}`)
    assert.equal(task.state === 'expired', task.decision?.expired === true)
    const accepted = [...(world.accepted.get(task.id) ?? [])]
    assert.ok(accepted.length <= 1, `task ${task.id} was decided once: ${accepted}`)
    if (accepted.length === 1) assert.equal(accepted[0], canonical(task.decision), `task ${task.id}: what was answered is what is kept`)
    assert.ok(!task.excluded.includes(task.decision?.decided_by ?? ''), 'four eyes')
    await judgeRead(disk, task)
  }
  return tasks.length
}

/** What the run has read is what was decided. */
async function judgeRead(disk: StateReader, { id, run, effect, decision }: Task): Promise<void> {
  const records = (await recordsOf(disk, run)).map(({ raw }) => decode(raw))
  const read = records.filter(({ kind, payload }) => kind === 'EffectDone' && payload.source === 'svc.tasks')
  for (const { effectKey, payload } of read) {
    const event = payload.output as { id?: string; payload?: TaskDecision }
    if (effectKey !== effect && event.id !== id) continue
    assert.equal(canonical(effectKey === effect ? event : event.payload), canonical(decision), `${run} has read what was decided of ${id}`)
  }
  const opened = records.filter(({ kind, effectKey }) => kind === 'EffectStarted' && effectKey === effect)
  assert.equal(opened.length, 1, `task ${id} was opened once`)
}
