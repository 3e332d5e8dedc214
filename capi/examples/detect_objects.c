/* Finds objects in a JPEG with a checkpoint of efficientdet_d0. Reads the picture with libjpeg. */
#include <assay/assay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { SIDE = 512, MOST = 100 }; /* rows and columns that the model sees; boxes that it gives */

static float sample[SIDE][SIDE][3];
static assay_error* error; /* of the last call */

static assay_str text(const char* s) { return (assay_str){s, strlen(s)}; }

/* Ends the program with the library's explanation if a call failed. */
static void check(assay_status status) {
  assay_error_info info = {.struct_size = sizeof info};
  if (status == ASSAY_OK) return;
  if (assay_error_get(error, &info) == ASSAY_OK)
    fprintf(stderr, "%.*s\n", (int)info.message.size, info.message.data);
  assay_error_free(error);
  exit(1);
}

/* Red, green and blue of a file; libjpeg ends the program where it cannot be read. */
static unsigned char* read_jpeg(const char* path, int* rows, int* columns) {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr messages;
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  jpeg.err = jpeg_std_error(&messages);
  jpeg_create_decompress(&jpeg);
  jpeg_stdio_src(&jpeg, file);
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  *rows = (int)jpeg.output_height, *columns = (int)jpeg.output_width;
  unsigned char* pixels = malloc((size_t)*rows * (size_t)*columns * 3);
  while (pixels && jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + (size_t)jpeg.output_scanline * (size_t)*columns * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_destroy_decompress(&jpeg);
  fclose(file);
  return pixels;
}

static int at_most(int a, int b) { return a < b ? a : b; }

/* Fits the picture into the sample, at the upper left of zeros, as the model was trained: resized
 * by TensorFlow 1's bilinear rule, normalised by ImageNet's means. Returns how many of the picture's
 * pixels one of the sample is. */
static float prepare(const unsigned char* pixels, int rows, int columns) {
  static const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
  const float scale = (float)SIDE / (float)(rows > columns ? rows : columns);
  const int height = (int)((float)rows * scale), width = (int)((float)columns * scale);
  for (int y = 0; y < (height > 0 ? height : 1); ++y) {
    for (int x = 0; x < (width > 0 ? width : 1); ++x) {
      const float row = (float)y * ((float)rows / (float)(height > 0 ? height : 1));
      const float column = (float)x * ((float)columns / (float)(width > 0 ? width : 1));
      const int top = (int)row, left = (int)column;
      const int below = at_most(top + 1, rows - 1), right = at_most(left + 1, columns - 1);
      for (int c = 0; c < 3; ++c) {
        const float a = pixels[(top * columns + left) * 3 + c];
        const float b = pixels[(top * columns + right) * 3 + c];
        const float d = pixels[(below * columns + left) * 3 + c];
        const float e = pixels[(below * columns + right) * 3 + c];
        const float upper = a + (b - a) * (column - (float)left);
        const float lower = d + (e - d) * (column - (float)left);
        const float value = upper + (lower - upper) * (row - (float)top);
        sample[y][x][c] = (value / 255 - mean[c]) / deviation[c];
      }
    }
  }
  return 1 / scale;
}

int main(int argc, char** argv) {
  const int64_t shape[] = {1, SIDE, SIDE, 3};
  assay_context* context;
  assay_model* model;
  assay_predictor* predictor;
  assay_slot* slot;
  assay_tensor *image, *out[3] = {NULL, NULL, NULL};
  float boxes[MOST][4], scores[MOST]; /* ymin, xmin, ymax, xmax in the sample; best first */
  int32_t classes[MOST];              /* -1 behind the last */
  int rows = 0, columns = 0;

  if (argc < 3) {
    fprintf(stderr, "detect_objects CHECKPOINT PICTURE.jpg [LEAST PROBABILITY]\n");
    return 2;
  }
  const float least = argc > 3 ? (float)atof(argv[3]) : 0.3f;
  unsigned char* pixels = read_jpeg(argv[2], &rows, &columns);
  if (!pixels) {
    fprintf(stderr, "cannot read %s\n", argv[2]);
    return 1;
  }
  const float scale = prepare(pixels, rows, columns);

  check(assay_context_create(NULL, NULL, NULL, 0, &context, &error));
  check(assay_model_open(context, text(argv[1]), &model, &error));
  check(assay_predictor_create(model, text("{\"image_size\": [512, 512]}"), &predictor, &error));
  check(assay_slot_create(predictor, &slot, &error));
  check(assay_tensor_borrow(context, sample, sizeof sample, ASSAY_F32, shape, 4, NULL, 0, &image,
                            &error));
  const assay_tensor* batch[] = {image};
  check(assay_predictor_run(predictor, slot, batch, 1, out, 3, &error));
  check(assay_tensor_read(out[0], boxes, sizeof boxes, &error));
  check(assay_tensor_read(out[1], scores, sizeof scores, &error));
  check(assay_tensor_read(out[2], classes, sizeof classes, &error));

  for (int i = 0; i < MOST && classes[i] >= 0 && scores[i] >= least; ++i)
    printf("category %d, %.4f: left %.1f, top %.1f, right %.1f, bottom %.1f\n",
           (int)classes[i] + 1, scores[i], boxes[i][1] * scale, boxes[i][0] * scale,
           boxes[i][3] * scale, boxes[i][2] * scale);

  for (int i = 0; i < 3; ++i) assay_tensor_release(out[i]);
  assay_tensor_release(image);
  assay_slot_free(slot);
  assay_predictor_free(predictor);
  assay_model_free(model);
  assay_context_free(context);
  free(pixels);
  return 0;
}
