// Search in pages that are opened from a folder: browsers allow no Worker there, so this runs the
// theme's search in a hidden frame instead. After https://github.com/squidfunk/iframe-worker (MIT).
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement('iframe');
      frame.hidden = true;
      document.body.appendChild(frame);
      this.window = frame.contentWindow;
      this.loaded = new Promise(resolve => {
        this.window.document.open();
        this.window.onload = resolve;
        this.window.document.write(
          `<script>postMessage = data => parent.postMessage(data, '*');
          importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
            new Promise(done => {
              const script = document.createElement('script');
              script.src = url;
              script.onload = done;
              document.body.appendChild(script);
            })), Promise.resolve());
          </script><body><script src="${url}"></script></body>`
        );
        this.window.document.close();
      });
      window.addEventListener('message', event => {
        if (event.source === this.window) {
          this.dispatchEvent(new MessageEvent('message', { data: event.data }));
          this.onmessage?.(event);
        }
      });
    }

    postMessage(data) {
      void this.loaded.then(() =>
        this.window.dispatchEvent(new MessageEvent('message', { data }))
      );
    }

    terminate() {
      this.window.frameElement.remove();
    }
  };
}
