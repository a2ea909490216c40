/** What persons see of the tasks of a tenant, and do to them. */
import type { Task, TaskCaller, TaskOperations, TaskView } from 'svcdb/agents'
import { inTurns, type Work } from 'svcdb/lib/event-loop'
import { instant } from '../record/names.ts'
import { type Desk, mayDecide } from '../tasks/desk.ts'
import { rendered } from '../tasks/rendering.ts'
import { withheldOf } from '../tasks/request.ts'
import { isPending } from '../tasks/store.ts'

export class OperatedTasks implements TaskOperations {
  private readonly desk: () => Desk
  private readonly launch: (run: string) => void

  /** @param launch has a run go on. */
  constructor(desk: () => Desk, launch: (run: string) => void) {
    this.desk = desk
    this.launch = launch
  }

  async list(caller: TaskCaller, limit: number): Promise<{ rows: TaskView[]; truncated: boolean }> {
    const { rows, truncated } = await this.desk().queue(caller, limit)
    return { rows: await inTurns(taskViews(rows, caller)), truncated }
  }

  async view(task: string, caller: TaskCaller): Promise<TaskView> {
    return inTurns(taskView(await this.desk().task(task), caller))
  }

  async claim(task: string, caller: TaskCaller): Promise<TaskView> {
    return inTurns(taskView(await this.desk().claim(task, caller), caller))
  }

  release(task: string, caller: TaskCaller): Promise<void> {
    return this.desk().release(task, caller)
  }

  async takeOver(task: string, from: string, caller: TaskCaller): Promise<TaskView> {
    return inTurns(taskView(await this.desk().takeOver(task, from, caller), caller))
  }

  async decide(...[task, said, caller]: Parameters<TaskOperations['decide']>): ReturnType<TaskOperations['decide']> {
    const { decision, runs } = await this.desk().decided(task, said, caller)
    for (const run of runs) this.launch(run)
    return decision
  }

  overdue(limit: number): Promise<{ rows: string[]; truncated: boolean }> {
    return this.desk().overdue(limit)
  }

  backlog(limit: number): Promise<number> {
    return this.desk().backlog(limit)
  }

  withhold(...[task, why]: Parameters<TaskOperations['withhold']>): Promise<void> {
    return this.desk().withhold(task, why)
  }
}

function* taskViews(tasks: readonly Task[], caller: TaskCaller): Work<TaskView[]> {
  const views: TaskView[] = []
  for (const task of tasks) views.push(yield* taskView(task, caller))
  return views
}

function* taskView(task: Task, caller: TaskCaller): Work<TaskView> {
  const { id, run, kind, priority, state, digest, assignee, due } = task
  const { summary, cost, evidence } = task.justification
  const withheld = withheldOf(task)
  yield
  return {
    id,
    run,
    kind,
    justification: withheld === undefined ? task.justification : { ...task.justification, proposed_action: null },
    priority,
    state,
    decidable_by_you: isPending(task) && mayDecide(task, caller),
    has_untrusted_prose: [summary, ...(cost === undefined ? [] : [cost]), ...evidence].some(({ label }) => label.trust === 'untrusted'),
    rendering: yield* rendered(task, withheld),
    digest,
    ...(assignee === undefined ? {} : { assignee }),
    ...(task.case === undefined ? {} : { case: task.case }),
    ...(due === undefined ? {} : { due_at: instant(due) }),
    ...(withheld === undefined ? {} : { withheld }),
  }
}
