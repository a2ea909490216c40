/** Skills: what a step of a run does. */
import type { Static, TSchema } from 'typebox'
import type { StepContext } from './index.ts'

/**
 * What becomes of a step that was done when its run fails or is cancelled. `compensatable`: `compensate` undoes it. `pivot`: neither it nor what was before it
 * is undone. `unnecessary`: there is nothing to undo. `undeclared`: a person must say, if it changed anything.
 */
export type Compensation = 'compensatable' | 'pivot' | 'unnecessary' | 'undeclared'

/** Something that a run can do, as code. Each time a step is run again, `invoke` is called anew and its effects are answered out of the journal. */
export interface SkillDefinition<I extends TSchema = TSchema, O extends TSchema = TSchema> {
  /** What runs and plans name it by, such as `disk.clean`. */
  capability: string
  summary: string
  input: I
  output: O
  /** Default: `compensatable` with `compensate`, else `undeclared`. */
  compensation?: Compensation
  /** Does nothing outside but through `ctx`, and the same each time as long as `ctx` answers the same. */
  invoke(ctx: StepContext, input: Static<I>): Promise<Static<O>>
  /** @param output undefined = the step did not end. */
  compensate?(ctx: StepContext, input: Static<I>, output: Static<O> | undefined): Promise<void>
}

const MARK = Symbol.for('svc.skill')
const CAPABILITY = /^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$/

/** What `defineSkill` returns. */
export type Skill = SkillDefinition & { readonly compensation: Compensation; readonly [MARK]: true }

/** Checks and marks a skill. @throws Error for a name that is none, and for a compensation that says something else than there is. */
export function defineSkill<I extends TSchema, O extends TSchema>(definition: SkillDefinition<I, O>): Skill {
  const { capability, compensate } = definition
  const compensation = definition.compensation ?? (compensate === undefined ? 'undeclared' : 'compensatable')
  const refuse = (why: string) => new Error(`cannot define skill "${capability}": ${why}`)
  if (capability.length > 128 || !CAPABILITY.test(capability)) throw refuse('a capability is words of lower case letters, digits and "_" with dots between')
  if ((compensation === 'compensatable') !== (compensate !== undefined))
    throw refuse(`its compensation is "${compensation}"; a skill has the function compensate if it is "compensatable", and only then`)
  return Object.freeze({ ...(definition as unknown as SkillDefinition), compensation, [MARK]: true as const })
}
