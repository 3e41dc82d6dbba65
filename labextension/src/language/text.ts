// Lines of several facts, of which some may not be known.

type Part = string | number | false | null | undefined;

/** What is there of *parts*, with *separator* between. */
export function joined(separator: string, ...parts: Part[]): string {
  return parts.filter(Boolean).join(separator);
}

/** "v5litepod-8 · us-west4-a": what is there of *parts*. */
export function facts(...parts: Part[]): string {
  return joined(' · ', ...parts);
}

/** A problem and what to do, in one line; "" without one. */
export function problemLine(
  problem: { message: string; hint?: string } | null | undefined
): string {
  return joined(' ', problem?.message, problem?.hint);
}

/** What is asked before something is done: with what it means, and the button that agrees. */
export interface IQuestion {
  title: string;
  text: string;
  accept: string;
}
