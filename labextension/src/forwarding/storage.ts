// Whether this browser lets an app in a tab store data. Browsers that block third-party storage don't,
// and many applications, TensorBoard for example, stop working then.

/** Milliseconds to wait for the answer. */
const CHECK_TIMEOUT = 8000;

/**
 * Loads a page of ours from the app's origin in a hidden frame; it tries, and answers.
 * Without an answer the app is expected to work.
 *
 * @param check the page's URL
 * @param sandbox what the app's own frame may do
 */
export async function canStoreInFrame(
  check: string,
  sandbox: readonly string[]
): Promise<boolean> {
  const frame = document.createElement('iframe');
  frame.hidden = true;
  frame.sandbox.add(...sandbox);
  frame.src = check;
  const done = new AbortController();
  const timer = setTimeout(() => done.abort(), CHECK_TIMEOUT);
  try {
    return await new Promise<boolean>(resolve => {
      done.signal.addEventListener('abort', () => resolve(true));
      window.addEventListener(
        'message',
        event => {
          if (event.source === frame.contentWindow) {
            resolve(event.data?.storage !== false);
          }
        },
        { signal: done.signal }
      );
      document.body.append(frame);
    });
  } finally {
    clearTimeout(timer);
    done.abort();
    frame.remove();
  }
}
