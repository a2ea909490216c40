/** What a model is asked, and what it answers. */
import type { EffectCall, Json, Spend } from './index.ts'

/** A call of a tool that a model asks for. */
export interface ModelToolCall {
  id: string
  /** `tool://server/name`. */
  tool: string
  arguments: Json
}

/** One message of a conversation. */
export type Message =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string; tool_calls?: ModelToolCall[] }
  | { role: 'tool'; tool_call_id: string; content: string }

/** What a model is asked. */
export interface CompletionRequest {
  messages: Message[]
  /** Tools of the agent that it may call, by `ref`; default none. */
  tools?: string[]
  /** JSON Schema that the answer must fit. */
  output?: object
  maxTokens?: number
  /** In [0, 2]. */
  temperature?: number
}

/** Tokens of one completion. */
export interface Usage {
  input_tokens: number
  output_tokens: number
}

/** What a model has answered. */
export interface Completion {
  content: string
  /** The content as JSON, checked; where `output` was given, and the model calls no tool. */
  output?: Json
  tool_calls: ModelToolCall[]
  finish: 'stop' | 'tool_calls' | 'length'
  usage: Usage
}

/** As a provider gets it. */
export interface ModelRequest extends Omit<CompletionRequest, 'tools'> {
  model: string
  tools: { ref: string; description: string; parameters: object }[]
}

/** Answers requests; which of them `models.privileged.provider` of a manifest names. */
export interface ModelProvider {
  /** What a request may cost: reserved before it. */
  estimate(request: ModelRequest): Spend
  /** @throws EffectError: nothing is kept of an answer that fails, but what it has cost. */
  complete(request: ModelRequest, call: EffectCall): Promise<Completion>
}

/** What the provider `fake` answers: a text, calls of tools, or JSON. */
export type FakeReply =
  | string
  | { content?: string; tool_calls?: { tool: string; arguments: Json }[]; output?: Json; usage?: Partial<Usage>; finish?: 'stop' | 'tool_calls' | 'length' }

/** Replies in the order of turns, of which each answer of the model in the request before it is one; or what makes one of the request. */
export type FakeScript = readonly FakeReply[] | ((request: ModelRequest, turn: number) => FakeReply)
